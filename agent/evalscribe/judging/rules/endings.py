"""How an agent's work ended where it did not end by itself: a broken harness, a limit, a refusal, no answer at all."""

import re
from collections import Counter

from evalscribe.ids import canonical_json
from evalscribe.judging.rules import code, quote, wording
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import Facts
from evalscribe.judging.rules.spoken import Made, Spoken
from evalscribe.judging.rules.unreachable import CONNECTION, PROVIDER
from evalscribe.model.evidence import Citation
from evalscribe.text import pluralise

LIMIT_STEPS = ("limit", "conversation")
LIMIT = re.compile(
    r"\b(?:limit|exceeded|ran out of|too many (?:steps|turns|messages)|time[d -]?out|before it could be graded)\b", re.I
)
CONTEXT = re.compile(r"context.{0,20}(?:length|window|limit)|prompt is too long|too many (?:input )?tokens", re.I)
CANCELLED = re.compile(r"\b(?:CancelledError|KeyboardInterrupt)\b")
MODEL_SERVICE = re.compile(r"\bAPI(?:Connection|Timeout|Status)?Error\b|\bapi\.[\w.-]+\.\w+|\b(?:llm|model)\b", re.I)
"""A connection that failed was one to a model."""
TIMED_OUT = re.compile(r"timed? ?out", re.I)
REFUSAL = re.compile(
    r"\W*(?:(?:i'm|i am) (?:very |really )?sorry,? but |sorry,? |unfortunately,? )?"
    r"i(?:'m| am)? (?:can't|cannot|can not|won't|will not|not able to|unable to) "
    r"(?:\w+ )?(?:help|assist|comply|continue|fulfil|do that|support|engage|participate)",
    re.IGNORECASE,
)
LOOP = 3
"""So many equal calls with equal answers are a loop."""
LATEST = 6
"""Calls before the end that tell whether the work still went on."""


def harness_broke(facts: Facts) -> Decision | None:
    """The source says itself that no failure of the model ended the eval: an error of the harness or the provider."""
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
    if CONNECTION.search(said) or PROVIDER.search(said):
        return _outside(facts, "service-not-reachable", f"no answer: {said}", "a service could not be reached")
    return Decision(
        label="OVERLY_STRICT",
        kind="harness",
        cause="harness-" + code.kebab(said, 40),
        confidence=0.75,
        why=wording.cut(f"the harness broke: {said}"),
        reasoning=f"{_so_far(facts.spoken)} the harness itself raised an error: the work was never judged.",
        citations=quote.log(facts),
        fix=f"find out why the harness raises `{wording.cut(said, 80)}`",
        by_error_text=True,
    )


def cut_off(facts: Facts) -> Decision | None:
    """A limit ended the work before the model did."""
    step = next((one for one in facts.evidence.steps if one.status == "failed" and one.name in LIMIT_STEPS), None)
    if step is None or not facts.spoken.turns or not LIMIT.search(f"{step.name} {step.error or ''}"):
        return None
    loop = _loop(facts.spoken)
    if loop:
        return _looping(facts, *loop)
    failing = [made for made in facts.spoken.made[-LATEST:] if made.failed]
    stuck = len(failing) * 2 > min(LATEST, len(facts.spoken.made))
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="stuck-at-limit" if stuck else "limit-reached",
        confidence=0.6 if stuck else 0.5,
        uncertain=not stuck,
        error=step.error,
        why=wording.cut(f"not finished when the limit came: {step.error or step.name}"),
        reasoning=f"{_work(facts.spoken)} "
        + (
            f"{len(failing)} of its last {min(LATEST, len(facts.spoken.made))} calls failed, so it was stuck."
            if stuck
            else "Nothing was repeated or stuck at the end: whether the limit was too low, the transcript cannot tell."
        ),
        citations=(*(_failed(failing[-1]) if stuck else ()), *_last(facts.spoken)),
    )


def goes_round_in_circles(facts: Facts) -> Decision | None:
    """The same call with the same answer, again and again, is the last that the model did."""
    loop = _loop(facts.spoken)
    made = facts.spoken.made
    if loop is None or loop[0] not in made[-LATEST:]:
        return None
    return _looping(facts, *loop)


def refuses(facts: Facts) -> Decision | None:
    """The model's last words say that it will not do it."""
    words = facts.spoken.words
    if not words or not REFUSAL.match(words[-1].turn.text):
        return None
    said = words[-1].quoted(2)
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="refuses",
        confidence=0.65,
        why=wording.cut(f"refuses: {said.text}"),
        reasoning=f"{_work(facts.spoken)} Its last words refuse the task instead of answering.",
        citations=(said,),
    )


def never_answers(facts: Facts) -> Decision | None:
    """There is a transcript, graded, and the model says and calls nothing in it."""
    if not facts.spoken.turns or facts.spoken.words or facts.spoken.made:
        return None
    last = facts.spoken.turns[-1]
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="no-answer",
        confidence=0.5,
        uncertain=True,
        why="the model says nothing and calls no tool",
        reasoning="The transcript holds no word and no call of the model. It may have answered with nothing, or its "
        "answer was lost on the way: the transcript cannot tell which.",
        citations=(last.quoted(1),),
    )


def _is_of_the_provider(said: str) -> bool:
    """What a provider alone says, or a connection that failed and was one to a model."""
    if any(not TIMED_OUT.fullmatch(match[0]) for match in PROVIDER.finditer(said)):
        return True
    return MODEL_SERVICE.search(said) is not None and (CONNECTION.search(said) or PROVIDER.search(said)) is not None


def _outside(facts: Facts, cause: str, why: str, happened: str) -> Decision:
    return Decision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause=cause,
        confidence=0.9,
        why=wording.cut(why),
        reasoning=f"{_so_far(facts.spoken)} {happened}: the work was never judged.",
        citations=quote.log(facts),
        by_error_text=True,
    )


def _outgrown(facts: Facts, said: str) -> Decision:
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="context-exhausted",
        confidence=0.5,
        uncertain=True,
        why=wording.cut(f"the conversation outgrew the model's context: {said}"),
        reasoning=f"{_so_far(facts.spoken)} the conversation no longer fitted the model. Whether it wasted its context "
        "or the harness gave it too much, the error does not say.",
        citations=(*quote.log(facts), *_last(facts.spoken)),
    )


def _looping(facts: Facts, made: Made, times: int) -> Decision:
    tool = made.call.turn.name or "a tool"
    answer = (made.answer.quoted(1),) if made.answer else ()
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause=f"repeats-{code.kebab(tool)}",
        confidence=0.7,
        why=wording.cut(f"calls `{tool}` {times} times with the same arguments and answer"),
        reasoning=f"{_work(facts.spoken)} It made the same call of `{tool}` {times} times and got the same answer.",
        citations=(made.call.header(3), *answer),
    )


def _loop(spoken: Spoken) -> tuple[Made, int] | None:
    """The call that was made most often with the same arguments and answer, and how often."""
    keys = [_key(made) for made in spoken.made]
    counts = Counter(keys)
    key = max(counts, key=lambda one: counts[one], default=None)
    if key is None or counts[key] < LOOP:
        return None
    return next(made for made, own in zip(reversed(spoken.made), reversed(keys), strict=True) if own == key), counts[
        key
    ]


def _key(made: Made) -> str:
    answer = made.answer.turn.text if made.answer else None
    return canonical_json([made.call.turn.name, made.call.turn.arguments, answer])


def _work(spoken: Spoken) -> str:
    words, calls = (pluralise(len(each), "time") for each in (spoken.words, spoken.made))
    return f"The model spoke {words} and called tools {calls}."


def _so_far(spoken: Spoken) -> str:
    if not spoken.turns:
        return "Outside of what is judged,"
    done = len(spoken.made) + len(spoken.words)
    return f"After {done} words and calls of the model" if done else "Before the model said anything"


def _last(spoken: Spoken) -> tuple[Citation, ...]:
    """The last thing that the model did."""
    if not spoken.by_model:
        return ()
    last = spoken.by_model[-1]
    return (last.header(3) if last.turn.kind == "calls" else last.quoted(2),)


def _failed(made: Made) -> tuple[Citation, ...]:
    return (made.answer.quoted(1),) if made.answer else ()
