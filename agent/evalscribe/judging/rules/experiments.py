"""Tries of our own experiments: a target that gave no answer, and a scorer that says why it failed one."""

import re

from evalscribe.judging.cite import cite
from evalscribe.judging.rules import code, quote, wording
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import Facts
from evalscribe.judging.rules.unreachable import CONNECTION
from evalscribe.model.evidence import Citation
from evalscribe.model.record import SCORES_LOG
from evalscribe.model.run import TARGET

BUSY = re.compile(
    r"\banswered (?:429|502|503|504)\b|\berror code: ?(?:429|5\d\d)\b|rate.?limit|too many requests|overloaded"
    r"|connection attempts failed|server disconnected|connection error"
    r"|no endpoints? found|(?:insufficient|exceeded).{0,16}(?:quota|credit|balance|fund)"
    r"|\b(?:RateLimit|Overloaded|ServiceUnavailable|InternalServer|APIConnection|APITimeout)Error\b",
    re.IGNORECASE,
)
"""What services say of themselves. A bare number or `timed out` may be anything."""
LATE = re.compile(r"no (?:answer|verdict) within ")
STATUS = re.compile(r" answered \d{3}$")
RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b")
EXITED = re.compile(r"exit code \d+|ended by \S+")
FRAME = re.compile(r'\s*File "[^"]+", line \d+')


def target_gave_no_answer(facts: Facts) -> Decision | None:
    """What was tried raised, was too late, or gave nothing that can be read: no scorer came to judge anything."""
    eval = facts.evidence.eval
    if eval.status != "error" or eval.failed_step != TARGET:
        return None
    said = (eval.reason or "").strip() or "it does not say why"
    outside = BUSY.search(said) or CONNECTION.search(said)
    return _outside(facts, said) if outside else _own(facts, said)


def scorer_says_why(facts: Facts) -> Decision | None:
    """A scorer explains itself, and the rules know no more than it does: its words, and no certainty."""
    line = _failed_line(facts)
    if line is None:
        return None
    why = line.text.partition(": ")[2].partition(": ")[2] or line.text
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="fails-" + code.kebab(facts.step),
        confidence=0.5,
        uncertain=True,
        error=wording.cut(why, 200),
        why=wording.cut(why),
        reasoning=f"The scorer `{facts.step}` failed the answer: {wording.cut(why, 170)}. Whether it is right to, "
        "no rule can tell.",
        citations=(line,),
    )


def _outside(facts: Facts, said: str) -> Decision:
    return Decision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause="target-not-reached-" + code.kebab(said, 32),
        confidence=0.7,
        why=wording.cut(f"no answer of the target: {said}"),
        reasoning=f"The target gave no answer: {wording.cut(said, 170)}. That is what a service or a connection says "
        "when it cannot be had, so no answer was scored. It may succeed when the run is repeated.",
        citations=quote.log(facts),
        by_error_text=True,
    )


def _own(facts: Facts, said: str) -> Decision:
    how = _how(said)
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="target-" + ("too-late" if LATE.match(said) else code.kebab(said, 40)),
        confidence=0.5,
        uncertain=True,
        error=wording.cut(said, 200),
        why=wording.cut(f"the target {how}"),
        reasoning=f"The target itself {wording.cut(how, 170)}: it gave no answer, so no scorer judged one. Whether "
        "its own code, the input or something that it relies on is at fault, the error alone does not tell.",
        citations=(*quote.log(facts), *_frame(facts)),
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
    """Where a traceback ends."""
    for document in facts.evidence.of("log"):
        frames = [number for number, text in enumerate(document.lines, 1) if FRAME.match(text)]
        if frames:
            return (cite(document, frames[-1], min(frames[-1] + 1, len(document.lines))),)
    return ()


def _failed_line(facts: Facts) -> Citation | None:
    """What the failed step, a scorer, said in the log of scores."""
    document = facts.evidence.document("log", SCORES_LOG)
    if document is None or facts.evidence.eval.failed_step is None:
        return None
    begins = f"{facts.step}: failed "
    number = next((n for n, text in enumerate(document.lines, 1) if text.startswith(begins)), None)
    return None if number is None else cite(document, number, number)
