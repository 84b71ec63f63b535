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
"""Matches signs that the environment of the tests broke."""
TYPE = re.compile(r"^\w+(?:Error|Exception): ")
"""Matches the type of an exception at the start of its message."""
CANCELLED = re.compile(r"\b(?:CancelledError|KeyboardInterrupt)\b")
MODEL_SERVICE = re.compile(r"\bAPI(?:Connection|Timeout|Status)?Error\b|\bapi\.[\w.-]+\.\w+|\b(?:llm|model)\b", re.I)
"""Matches signs that a failed connection was a connection to a model."""
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
"""Number of calls at the end of a run that show whether the model was still making progress."""


def harness_broke(facts: Facts) -> RuleDecision | None:
    """Judge failures for which the source reports that the harness or the provider failed."""
    if facts.evidence.eval.status != "error":
        return None
    message = facts.first.error if facts.first else "the harness broke and does not say why"
    if CONTEXT.search(message):
        return _context_exhausted(facts, message)
    if CANCELLED.search(message):
        return _infrastructure_failed(
            facts, "run-cancelled", f"cancelled: {message}", "the run was cancelled from outside"
        )
    if _is_of_the_provider(message):
        return _infrastructure_failed(
            facts, "model-not-reachable", f"the provider failed: {message}", "a provider or the network failed"
        )
    if ENVIRONMENT.search(message):
        return _infrastructure_failed(facts, "environment-failed", message, "the environment of the tests broke")
    if CONNECTION.search(message) or PROVIDER.search(message):
        return _infrastructure_failed(
            facts, "service-not-reachable", f"no answer: {message}", "a service could not be reached"
        )
    # A grader's error because of a provider or a connection is an outage, which is decided above.
    raised = next((step for step in facts.evidence.steps if step.status == "skipped" and step.error), None)
    if raised is not None:
        return _grader_raised(facts, raised)
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="harness",
        cause="harness-" + code.kebab(message, 40),
        confidence=0.75,
        why=quote.cut(f"the harness broke: {message}"),
        reasoning=f"{_progress(facts.transcripts)} the harness itself raised an error: the work was never judged.",
        citations=quote.log(facts),
        fix=f"find out why the harness raises `{quote.cut(message, 80)}`",
        by_error_text=True,
    )


def _grader_raised(facts: Facts, step: Step) -> RuleDecision:
    """Return the decision for an eval in which no check failed but a grader raised an error instead of judging."""
    message = (step.error or "").strip().split("\n")[0]
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="harness",
        cause=f"grader-raises-{code.kebab(step.name)}",
        confidence=0.7,
        error=quote.cut(f"the grader {step.name} raised: {message}", 200),
        why=quote.cut(f"the grader `{step.name}` raised: {message}"),
        reasoning=f"The grader `{step.name}` raised an error instead of judging, and no other check failed. It is "
        "not known whether the answer is right.",
        citations=(*_last_action(facts.transcripts), *quote.log(facts)),
        fix=f"let the grader `{step.name}` say pass or fail for such an answer instead of raising",
        by_error_text=True,
    )


def cut_off(facts: Facts) -> RuleDecision | None:
    """Judge failures in which a limit stopped the model before it finished."""
    step = next(
        (
            candidate
            for candidate in facts.evidence.steps
            if candidate.status == "failed" and candidate.name in LIMIT_STEPS
        ),
        None,
    )
    if step is None or not facts.transcripts.turns or not LIMIT.search(f"{step.name} {step.error or ''}"):
        return None
    loop = _loop(facts.transcripts)
    if loop:
        return _looping(facts, *loop)
    failing = [call for call in facts.transcripts.calls[-LATEST:] if call.failed]
    stuck = len(failing) * 2 > min(LATEST, len(facts.transcripts.calls))
    last = facts.transcripts.by_model[-1] if facts.transcripts.by_model else None
    call = next(
        (
            candidate
            for candidate in facts.transcripts.calls[-1:]
            if candidate.answer is None and candidate.call is last
        ),
        None,
    )
    waiting = _waiting(call, step) if call else None
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="stuck-at-limit" if stuck else "limit-reached",
        confidence=0.6 if stuck else 0.5,
        uncertain=not stuck,
        error=step.error,
        why=quote.cut(f"not finished at the limit: {TYPE.sub('', step.error or step.name)}"),
        reasoning=f"{_work(facts.transcripts)} "
        + (
            f"{len(failing)} of its last {min(LATEST, len(facts.transcripts.calls))} calls failed, so it was stuck."
            if stuck
            else waiting
            if waiting
            else "Nothing was repeated or stuck at the end. The transcript cannot tell whether the limit was too low."
        ),
        citations=(*(_failed_answer(failing[-1]) if stuck else ()), *_last_action(facts.transcripts)),
    )


def _waiting(call: AnsweredCall, step: Step) -> str:
    """Return a sentence that names the call that had not returned when the limit was reached."""
    command = next((value for value in call.action.arguments.values() if isinstance(value, str)), "")
    command_text = f", `{quote.cut(command, 80)}`," if command and "`" not in command else ""
    limit = TIME.search(step.error or "")
    limit_text = f"the time limit of {limit[1]} was reached" if limit else "the limit was reached"
    return f"Its last call of `{call.call.turn.name}`{command_text} had not returned when {limit_text}."


def goes_round_in_circles(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the model repeated the same call with the same answer until the end."""
    loop = _loop(facts.transcripts)
    calls = facts.transcripts.calls
    if loop is None or loop[0] not in calls[-LATEST:]:
        return None
    return _looping(facts, *loop)


def refuses(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the model refuses the task in its last message."""
    messages = facts.transcripts.messages
    if not messages or not REFUSAL.match(messages[-1].turn.text):
        return None
    quotation = messages[-1].quoted(2)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="refuses",
        confidence=0.65,
        error=quote.cut(f"refuses: {quotation.text}", 200),
        why=quote.cut(f"refuses: {quotation.text}"),
        reasoning=f"{_work(facts.transcripts)} Its last words refuse the task instead of answering.",
        citations=(quotation,),
    )


def never_answers(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the model says nothing and calls no tool in the graded transcript or table row."""
    if not facts.transcripts.turns or facts.transcripts.messages or facts.transcripts.calls:
        return None
    last = facts.transcripts.turns[-1]
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


def _is_of_the_provider(message: str) -> bool:
    """Return whether the message comes from a provider, or from a failed connection to a model."""
    # A time-out alone does not show that the provider was slow. Any other service might have been slow.
    if any(not TIMED_OUT.fullmatch(match[0]) for match in PROVIDER.finditer(message)):
        return True
    return (
        MODEL_SERVICE.search(message) is not None
        and (CONNECTION.search(message) or PROVIDER.search(message)) is not None
    )


def _infrastructure_failed(facts: Facts, cause: str, why: str, happened: str) -> RuleDecision:
    return RuleDecision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause=cause,
        confidence=0.9,
        why=quote.cut(why),
        reasoning=f"{_progress(facts.transcripts)} {happened}: the work was never judged.",
        citations=quote.log(facts),
        by_error_text=True,
    )


def _context_exhausted(facts: Facts, message: str) -> RuleDecision:
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="context-exhausted",
        confidence=0.5,
        uncertain=True,
        why=quote.cut(f"the conversation outgrew the model's context: {message}"),
        reasoning=f"{_progress(facts.transcripts)} the conversation no longer fitted the model. The error does not say "
        "whether the model wasted its context or the harness gave it too much.",
        citations=(*quote.log(facts), *_last_action(facts.transcripts)),
    )


def _looping(facts: Facts, call: AnsweredCall, times: int) -> RuleDecision:
    tool = call.call.turn.name or "a tool"
    answer = (call.answer.quoted(1),) if call.answer else ()
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause=f"repeats-{code.kebab(tool)}",
        confidence=0.7,
        why=quote.cut(f"calls `{tool}` {times} times with the same arguments and answer"),
        reasoning=f"{_work(facts.transcripts)} It made the same call of `{tool}` {times} times and got the same "
        "answer.",
        citations=(call.call.header(3), *answer),
    )


def _loop(transcripts: Transcripts) -> tuple[AnsweredCall, int] | None:
    """Return the call that was made most often with equal arguments and answers, and the number of these calls.

    Return None if no call was made often enough to count as a loop.
    """
    keys = [_call_key(call) for call in transcripts.calls]
    counts = Counter(keys)
    key = max(counts, key=lambda call_key: counts[call_key], default=None)
    if key is None or counts[key] < LOOP:
        return None
    # The last of the equal calls is returned, because it shows whether the run ended in the loop.
    return next(
        call for call, own_key in zip(reversed(transcripts.calls), reversed(keys), strict=True) if own_key == key
    ), counts[key]


def _call_key(call: AnsweredCall) -> str:
    answer = call.answer.turn.text if call.answer else None
    return canonical_json([call.call.turn.name, call.call.turn.arguments, answer])


def _work(transcripts: Transcripts) -> str:
    messages, calls = (pluralise(len(items), "time") for items in (transcripts.messages, transcripts.calls))
    return f"The model spoke {messages}{f' and called tools {calls}' if transcripts.calls else ''}."


def _progress(transcripts: Transcripts) -> str:
    if not transcripts.turns:
        return "Outside of what is judged,"
    count = len(transcripts.calls) + len(transcripts.messages)
    return f"After {count} messages and calls of the model" if count else "Before the model said anything"


def _last_action(transcripts: Transcripts) -> tuple[Citation, ...]:
    if not transcripts.by_model:
        return ()
    last = transcripts.by_model[-1]
    return (last.header(3) if last.turn.kind == "calls" else last.quoted(2),)


def _failed_answer(call: AnsweredCall) -> tuple[Citation, ...]:
    return (call.answer.quoted(1),) if call.answer else ()


BUSY = re.compile(
    r"\banswered (?:429|502|503|504)\b|\berror code: ?(?:429|5\d\d)\b|rate.?limit|too many requests|overloaded"
    r"|connection attempts failed|server disconnected|connection error"
    r"|no endpoints? found|(?:insufficient|exceeded).{0,16}(?:quota|credit|balance|fund)"
    r"|\b(?:RateLimit|Overloaded|ServiceUnavailable|InternalServer|APIConnection|APITimeout)Error\b",
    re.IGNORECASE,
)
"""Matches messages of services that are busy or unavailable.

A number such as 503 without any context does not match, and neither does `timed out`, because they are ambiguous.
"""
LATE = re.compile(r"no (?:answer|verdict) within ")
STATUS = re.compile(r" answered \d{3}$")
RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b")
EXITED = re.compile(r"exit code \d+|ended by \S+")
PLACE = re.compile(r" \([^()\s]+:\d+\)$")
"""Matches the file and line at the end of an error.

File and line are removed from the error, because line numbers change with every edit.
"""
FRAME = re.compile(r'\s*File "[^"]+", line \d+')


def target_gave_no_answer(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the target raised an error, timed out or returned no readable output.

    The scorers then had no output to judge.
    """
    eval = facts.evidence.eval
    if eval.status != "error" or eval.failed_step != TARGET:
        return None
    reason = (eval.reason or "").strip() or "it does not say why"
    outside = BUSY.search(reason) or CONNECTION.search(reason)
    return _target_not_reached(facts, reason) if outside else _fault_of_target(facts, reason)


def scorer_says_why(facts: Facts) -> RuleDecision | None:
    """Judge failures for which a scorer's explanation of its score is the only clue.

    The decision quotes the scorer, with low confidence.
    """
    line = _failed_line(facts)
    if line is None:
        return None
    # A line has the form `equal: failed 0 (mismatch): output is 1: not 2`.
    explanation = line.text.partition(": ")[2].partition(": ")[2] or line.text
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="fails-" + code.kebab(facts.step),
        confidence=0.5,
        uncertain=True,
        error=quote.cut(explanation, 200),
        why=quote.cut(explanation),
        reasoning=f"The scorer `{facts.step}` failed the answer: {quote.cut(explanation, 170).rstrip('.')}. No rule "
        f"can tell whether the answer is right.{_after_failed_call(facts.transcripts)}",
        citations=(
            *quote.cells(facts, "task", "output", "expected"),
            *(_failed_answer(facts.transcripts.calls[-1]) if _after_failed_call(facts.transcripts) else ()),
            *(() if facts.produced else _last_action(facts.transcripts)),
            line,
        ),
    )


def _after_failed_call(transcripts: Transcripts) -> str:
    """Return a sentence which says that the last call before the answer failed; empty if the call succeeded."""
    if not transcripts.calls or not transcripts.calls[-1].failed or not transcripts.messages:
        return ""
    return f" The last call before the answer, of `{transcripts.calls[-1].call.turn.name}`, failed."


def _target_not_reached(facts: Facts, reason: str) -> RuleDecision:
    return RuleDecision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause="target-not-reached-" + code.kebab(reason, 32),
        confidence=0.7,
        why=quote.cut(f"no answer from the target: {reason}"),
        reasoning=f"The target gave no answer: {quote.cut(reason, 170)}. That is the message of an unavailable "
        "service or connection, so no answer was scored. It may succeed when the run is repeated.",
        citations=quote.log(facts),
        by_error_text=True,
    )


def _fault_of_target(facts: Facts, reason: str) -> RuleDecision:
    phrase = _failure_phrase(reason)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="target-" + ("too-late" if LATE.match(reason) else code.kebab(PLACE.sub("", reason), 40)),
        confidence=0.5,
        uncertain=True,
        error=quote.cut(reason, 200),
        why=quote.cut(f"the target {phrase}"),
        reasoning=f"The target itself {quote.cut(phrase, 170)}: it gave no answer, so no scorer judged one. The "
        "error alone does not tell whether its own code, the input or a dependency is at fault.",
        citations=(*quote.cells(facts, "task"), *quote.log(facts), *_frame(facts)),
    )


def _failure_phrase(reason: str) -> str:
    if LATE.match(reason):
        return f"did not answer in time: {reason}"
    if RAISED.match(reason):
        return f"raised {reason}"
    if EXITED.match(reason) or STATUS.search(reason):
        return f"failed: {reason}"
    return f"gave no answer: {reason}"


def _frame(facts: Facts) -> tuple[Citation, ...]:
    """Quote the last frame of a traceback."""
    for document in facts.evidence.of("log"):
        frames = [number for number, text in enumerate(document.lines, 1) if FRAME.match(text)]
        if frames:
            return (cite_lines(document, frames[-1], min(frames[-1] + 1, len(document.lines))),)
    return ()


def _failed_line(facts: Facts) -> Citation | None:
    """Quote the failed scorer's line in the log of scores."""
    document = facts.evidence.document("log", SCORES_LOG)
    if document is None or facts.evidence.eval.failed_step is None:
        return None
    # A scorer without a value has no number after `failed`.
    prefixes = f"{facts.step}: failed ", f"{facts.step}: failed:"
    number = next((n for n, text in enumerate(document.lines, 1) if text.startswith(prefixes)), None)
    return None if number is None else cite_lines(document, number, number)
