"""Rules for runs that ended early: harness errors, limits, loops, refusals, failed targets and scorers."""

import re
from collections import Counter

from evalscribe.ids import canonical_json
from evalscribe.judging.quotations import cite_lines
from evalscribe.judging.rules import code, quote
from evalscribe.judging.rules.doubts import CONNECTION, PROVIDER
from evalscribe.judging.rules.facts import Facts, RuleDecision
from evalscribe.judging.rules.transcripts import AnsweredCall, Transcripts
from evalscribe.model.evidence import Citation
from evalscribe.model.record import SCORES_LOG
from evalscribe.model.run import TARGET, Step
from evalscribe.text import pluralise

LIMIT_STEPS = ("limit", "conversation")
LIMIT = re.compile(
    r"\b(?:limit|exceeded|ran out of|too many (?:steps|turns|messages)|time[d -]?out|before it could be graded)\b", re.I
)
CONTEXT = re.compile(r"context.{0,20}(?:length|window|limit)|prompt is too long|too many (?:input )?tokens", re.I)
ENVIRONMENT = re.compile(
    r"environment of the tests failed|docker daemon|DockerException|cannot allocate memory|no space left on device",
    re.I,
)
"""Signs that the environment of the tests broke."""
TYPE = re.compile(r"^\w+(?:Error|Exception): ")
"""Matches the type of an exception before its message."""
CANCELLED = re.compile(r"\b(?:CancelledError|KeyboardInterrupt)\b")
MODEL_SERVICE = re.compile(r"\bAPI(?:Connection|Timeout|Status)?Error\b|\bapi\.[\w.-]+\.\w+|\b(?:llm|model)\b", re.I)
"""Signs that a failed connection was a connection to a model."""
TIMED_OUT = re.compile(r"timed? ?out", re.I)
TIME = re.compile(r"\bafter (\d[\d.,]* ?(?:ms|s|m|h|seconds?|minutes?|hours?))\b", re.I)
"""Matches the length of a time limit in a harness's message."""
REFUSAL = re.compile(
    r"\W*(?:(?:i['’]m|i am) (?:very |really )?sorry[,.]? (?:but )?|sorry[,.]? |unfortunately,? )?"
    r"(?:but )?i(?:['’]m| am)? (?:can['’]t|cannot|can not|won['’]t|will not|not able to|unable to) "
    r"(?:\w+ )?(?:help|assist|comply|continue|fulfil|do that|support|engage|participate)",
    re.IGNORECASE,
)
LOOP = 3
"""Minimum number of equal calls with equal answers that count as a loop."""
LATEST = 6
"""Number of final calls that show whether the model was still making progress."""


def harness_broke(facts: Facts) -> RuleDecision | None:
    """The source reports that the harness or the provider failed."""
    if facts.evidence.eval.status != "error":
        return None
    said = facts.first.error if facts.first else "the harness broke and does not say why"
    if CONTEXT.search(said):
        return _outgrown(facts, said)
    if CANCELLED.search(said):
        return _outside(facts, "run-cancelled", f"cancelled: {said}", "the run was cancelled from outside")
    if _is_of_the_provider(said):
        return _outside(
            facts, "model-not-reachable", f"the provider failed: {said}", "a provider or the network failed"
        )
    if ENVIRONMENT.search(said):
        return _outside(facts, "environment-failed", said, "the environment of the tests broke")
    if CONNECTION.search(said) or PROVIDER.search(said):
        return _outside(facts, "service-not-reachable", f"no answer: {said}", "a service could not be reached")
    raised = next((step for step in facts.evidence.steps if step.status == "skipped" and step.error), None)
    if raised is not None:
        return _grader_raised(facts, raised)
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="harness",
        cause="harness-" + code.kebab(said, 40),
        confidence=0.75,
        why=quote.cut(f"the harness broke: {said}"),
        reasoning=f"{_so_far(facts.spoken)} the harness itself raised an error: the work was never judged.",
        citations=quote.log(facts),
        fix=f"find out why the harness raises `{quote.cut(said, 80)}`",
        by_error_text=True,
    )


def _grader_raised(facts: Facts, step: Step) -> RuleDecision:
    """Decide an eval in which no check failed, but a grader raised an error instead of judging."""
    said = (step.error or "").strip().split("\n")[0]
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="harness",
        cause=f"grader-raises-{code.kebab(step.name)}",
        confidence=0.7,
        error=quote.cut(f"the grader {step.name} raised: {said}", 200),
        why=quote.cut(f"the grader `{step.name}` raised: {said}"),
        reasoning=f"The grader `{step.name}` raised an error instead of judging, and no other check failed. It is "
        "not known whether the answer is right.",
        citations=(*_last(facts.spoken), *quote.log(facts)),
        fix=f"let the grader `{step.name}` say pass or fail for such an answer instead of raising",
        by_error_text=True,
    )


def cut_off(facts: Facts) -> RuleDecision | None:
    """A limit stopped the model before it finished."""
    step = next((one for one in facts.evidence.steps if one.status == "failed" and one.name in LIMIT_STEPS), None)
    if step is None or not facts.spoken.turns or not LIMIT.search(f"{step.name} {step.error or ''}"):
        return None
    loop = _loop(facts.spoken)
    if loop:
        return _looping(facts, *loop)
    failing = [made for made in facts.spoken.made[-LATEST:] if made.failed]
    stuck = len(failing) * 2 > min(LATEST, len(facts.spoken.made))
    last = facts.spoken.by_model[-1] if facts.spoken.by_model else None
    made = next((one for one in facts.spoken.made[-1:] if one.answer is None and one.call is last), None)
    waiting = _waiting(made, step) if made else None
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="stuck-at-limit" if stuck else "limit-reached",
        confidence=0.6 if stuck else 0.5,
        uncertain=not stuck,
        error=step.error,
        why=quote.cut(f"not finished at the limit: {TYPE.sub('', step.error or step.name)}"),
        reasoning=f"{_work(facts.spoken)} "
        + (
            f"{len(failing)} of its last {min(LATEST, len(facts.spoken.made))} calls failed, so it was stuck."
            if stuck
            else waiting
            if waiting
            else "Nothing was repeated or stuck at the end. The transcript cannot tell whether the limit was too low."
        ),
        citations=(*(_failed(failing[-1]) if stuck else ()), *_last(facts.spoken)),
    )


def _waiting(made: AnsweredCall, step: Step) -> str:
    """Return a sentence that names the call during which the limit was reached."""
    command = next((value for value in made.action.arguments.values() if isinstance(value, str)), "")
    said = f", `{quote.cut(command, 80)}`," if command and "`" not in command else ""
    limit = TIME.search(step.error or "")
    came = f"the time limit of {limit[1]} was reached" if limit else "the limit was reached"
    return f"Its last call of `{made.call.turn.name}`{said} had not returned when {came}."


def goes_round_in_circles(facts: Facts) -> RuleDecision | None:
    """The model repeated the same call with the same answer until the end."""
    loop = _loop(facts.spoken)
    made = facts.spoken.made
    if loop is None or loop[0] not in made[-LATEST:]:
        return None
    return _looping(facts, *loop)


def refuses(facts: Facts) -> RuleDecision | None:
    """The model refuses the task in its last message."""
    words = facts.spoken.words
    if not words or not REFUSAL.match(words[-1].turn.text):
        return None
    said = words[-1].quoted(2)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="refuses",
        confidence=0.65,
        error=quote.cut(f"refuses: {said.text}", 200),
        why=quote.cut(f"refuses: {said.text}"),
        reasoning=f"{_work(facts.spoken)} Its last words refuse the task instead of answering.",
        citations=(said,),
    )


def never_answers(facts: Facts) -> RuleDecision | None:
    """A transcript or a row of a table was graded in which the model says nothing and calls no tool."""
    if not facts.spoken.turns or facts.spoken.words or facts.spoken.made:
        return None
    last = facts.spoken.turns[-1]
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="no-answer",
        confidence=0.5,
        uncertain=True,
        error="the model gives no answer",
        why="the model says nothing and calls no tool",
        reasoning="The output is empty: no word and no call of the model was recorded. It may have answered with "
        "nothing, or its answer was lost on the way; the record does not tell which.",
        citations=(last.quoted(1),),
    )


def _is_of_the_provider(said: str) -> bool:
    """Return whether the message comes from a provider, or from a failed connection to a model."""
    if any(not TIMED_OUT.fullmatch(match[0]) for match in PROVIDER.finditer(said)):
        return True
    return MODEL_SERVICE.search(said) is not None and (CONNECTION.search(said) or PROVIDER.search(said)) is not None


def _outside(facts: Facts, cause: str, why: str, happened: str) -> RuleDecision:
    return RuleDecision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause=cause,
        confidence=0.9,
        why=quote.cut(why),
        reasoning=f"{_so_far(facts.spoken)} {happened}: the work was never judged.",
        citations=quote.log(facts),
        by_error_text=True,
    )


def _outgrown(facts: Facts, said: str) -> RuleDecision:
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="context-exhausted",
        confidence=0.5,
        uncertain=True,
        why=quote.cut(f"the conversation outgrew the model's context: {said}"),
        reasoning=f"{_so_far(facts.spoken)} the conversation no longer fitted the model. The error does not say "
        "whether the model wasted its context or the harness gave it too much.",
        citations=(*quote.log(facts), *_last(facts.spoken)),
    )


def _looping(facts: Facts, made: AnsweredCall, times: int) -> RuleDecision:
    tool = made.call.turn.name or "a tool"
    answer = (made.answer.quoted(1),) if made.answer else ()
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause=f"repeats-{code.kebab(tool)}",
        confidence=0.7,
        why=quote.cut(f"calls `{tool}` {times} times with the same arguments and answer"),
        reasoning=f"{_work(facts.spoken)} It made the same call of `{tool}` {times} times and got the same answer.",
        citations=(made.call.header(3), *answer),
    )


def _loop(spoken: Transcripts) -> tuple[AnsweredCall, int] | None:
    """Return the call that was repeated most often with the same arguments and answer, and how often."""
    keys = [_key(made) for made in spoken.made]
    counts = Counter(keys)
    key = max(counts, key=lambda one: counts[one], default=None)
    if key is None or counts[key] < LOOP:
        return None
    return next(made for made, own in zip(reversed(spoken.made), reversed(keys), strict=True) if own == key), counts[
        key
    ]


def _key(made: AnsweredCall) -> str:
    answer = made.answer.turn.text if made.answer else None
    return canonical_json([made.call.turn.name, made.call.turn.arguments, answer])


def _work(spoken: Transcripts) -> str:
    words, calls = (pluralise(len(each), "time") for each in (spoken.words, spoken.made))
    return f"The model spoke {words}{f' and called tools {calls}' if spoken.made else ''}."


def _so_far(spoken: Transcripts) -> str:
    if not spoken.turns:
        return "Outside of what is judged,"
    done = len(spoken.made) + len(spoken.words)
    return f"After {done} messages and calls of the model" if done else "Before the model said anything"


def _last(spoken: Transcripts) -> tuple[Citation, ...]:
    """Quote the last action of the model."""
    if not spoken.by_model:
        return ()
    last = spoken.by_model[-1]
    return (last.header(3) if last.turn.kind == "calls" else last.quoted(2),)


def _failed(made: AnsweredCall) -> tuple[Citation, ...]:
    return (made.answer.quoted(1),) if made.answer else ()


BUSY = re.compile(
    r"\banswered (?:429|502|503|504)\b|\berror code: ?(?:429|5\d\d)\b|rate.?limit|too many requests|overloaded"
    r"|connection attempts failed|server disconnected|connection error"
    r"|no endpoints? found|(?:insufficient|exceeded).{0,16}(?:quota|credit|balance|fund)"
    r"|\b(?:RateLimit|Overloaded|ServiceUnavailable|InternalServer|APIConnection|APITimeout)Error\b",
    re.IGNORECASE,
)
"""Messages of services that are busy or unavailable. A bare number or `timed out` would be ambiguous."""
LATE = re.compile(r"no (?:answer|verdict) within ")
STATUS = re.compile(r" answered \d{3}$")
RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b")
EXITED = re.compile(r"exit code \d+|ended by \S+")
PLACE = re.compile(r" \([^()\s]+:\d+\)$")
"""Matches the file and line that raised an error, since line numbers change with every edit."""
FRAME = re.compile(r'\s*File "[^"]+", line \d+')


def target_gave_no_answer(facts: Facts) -> RuleDecision | None:
    """The target raised, timed out or returned no readable output, so no scorer could judge an output."""
    eval = facts.evidence.eval
    if eval.status != "error" or eval.failed_step != TARGET:
        return None
    said = (eval.reason or "").strip() or "it does not say why"
    outside = BUSY.search(said) or CONNECTION.search(said)
    return _target_not_reached(facts, said) if outside else _own(facts, said)


def scorer_says_why(facts: Facts) -> RuleDecision | None:
    """A scorer explains its score, and nothing else explains the failure: quote it, with low confidence."""
    line = _failed_line(facts)
    if line is None:
        return None
    why = line.text.partition(": ")[2].partition(": ")[2] or line.text
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="fails-" + code.kebab(facts.step),
        confidence=0.5,
        uncertain=True,
        error=quote.cut(why, 200),
        why=quote.cut(why),
        reasoning=f"The scorer `{facts.step}` failed the answer: {quote.cut(why, 170).rstrip('.')}. No rule "
        f"can tell whether the answer is right.{_after_failed_call(facts.spoken)}",
        citations=(
            *quote.cells(facts, "task", "output", "expected"),
            *(_failed(facts.spoken.made[-1]) if _after_failed_call(facts.spoken) else ()),
            *(() if facts.produced else _last(facts.spoken)),
            line,
        ),
    )


def _after_failed_call(spoken: Transcripts) -> str:
    """Return a sentence if the last call before the answer failed, else an empty string."""
    if not spoken.made or not spoken.made[-1].failed or not spoken.words:
        return ""
    return f" The last call before the answer, of `{spoken.made[-1].call.turn.name}`, failed."


def _target_not_reached(facts: Facts, said: str) -> RuleDecision:
    return RuleDecision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause="target-not-reached-" + code.kebab(said, 32),
        confidence=0.7,
        why=quote.cut(f"no answer from the target: {said}"),
        reasoning=f"The target gave no answer: {quote.cut(said, 170)}. That is the message of an unavailable "
        "service or connection, so no answer was scored. It may succeed when the run is repeated.",
        citations=quote.log(facts),
        by_error_text=True,
    )


def _own(facts: Facts, said: str) -> RuleDecision:
    how = _how(said)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="target-" + ("too-late" if LATE.match(said) else code.kebab(PLACE.sub("", said), 40)),
        confidence=0.5,
        uncertain=True,
        error=quote.cut(said, 200),
        why=quote.cut(f"the target {how}"),
        reasoning=f"The target itself {quote.cut(how, 170)}: it gave no answer, so no scorer judged one. The "
        "error alone does not tell whether its own code, the input or a dependency is at fault.",
        citations=(*quote.cells(facts, "task"), *quote.log(facts), *_frame(facts)),
    )


def _how(said: str) -> str:
    if LATE.match(said):
        return f"did not answer in time: {said}"
    if RAISED.match(said):
        return f"raised {said}"
    if EXITED.match(said) or STATUS.search(said):
        return f"failed: {said}"
    return f"gave no answer: {said}"


def _frame(facts: Facts) -> tuple[Citation, ...]:
    """Quote the last frame of a traceback."""
    for document in facts.evidence.of("log"):
        frames = [number for number, text in enumerate(document.lines, 1) if FRAME.match(text)]
        if frames:
            return (cite_lines(document, frames[-1], min(frames[-1] + 1, len(document.lines))),)
    return ()


def _failed_line(facts: Facts) -> Citation | None:
    """Quote the line of the failed scorer in the log of scores."""
    document = facts.evidence.document("log", SCORES_LOG)
    if document is None or facts.evidence.eval.failed_step is None:
        return None
    begins = f"{facts.step}: failed ", f"{facts.step}: failed:"
    number = next((n for n, text in enumerate(document.lines, 1) if text.startswith(begins)), None)
    return None if number is None else cite_lines(document, number, number)
