"""Whether something that was done about an eval has held: what one later run says of it."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from evalscribe.across import Told, alike, same_failure, same_version
from evalscribe.model.analysis import AnalyzedRun, FindingSummary
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.finding import NOT_THE_MODEL, FollowUpOutcome

DATED = re.compile(r"\W*(\d{4}-\d{2}-\d{2})\b[:,]?\s*")
OF_THE_EVAL = re.compile(
    r"(?<![\w/.-])(?:tasks?|graders?)(?![\w/-])|(?:test|grader|task)[\w-]{0,60}(?:\.[\w-]{1,30})*\.[a-z]{1,5}\b",
    re.IGNORECASE,
)
"""An action that says it changed task or grader, or a file called so. An eval's own name may hold these words."""
OPEN_SHARE = 0.1
"""Of a run with more evals that never completed, and are not named, nothing can be said to have passed."""


class Now(NamedTuple):
    """What a later run says of an eval."""

    date: str | None
    """ISO date of its report."""
    failed: Told | None
    """None where the eval is not among the failures."""
    judged: bool = True
    """Whether a judge or person is sure why it failed, and that was no provider or network."""
    ran: bool = True
    """Whether an eval that is not among the failures surely ran, but for the few that never completed."""
    sighting: FailureFingerprint | None = None


def outcome(text: str, then: Told, acted_on: FailureFingerprint | None, now: Now) -> FollowUpOutcome:
    """What a run says of an action: `text` is the action, `then` and `acted_on` the failure that it was for.

    Did not hold: the eval fails for the same cause. Held: it ran and does not fail, or passes this step and fails at
    another, or fails at this one for another cause, so that this one is gone. Else the run does not say: it is older
    than the action, never came to the model's work or to that step, or has the task and grader of before where the
    action says that it changed them.
    """
    if _made_after(text, now.date):
        return "not yet seen"
    if now.failed is None:
        return "held" if now.ran else "not yet seen"
    if _never_came_so_far(then, acted_on, now.failed, now.sighting) or _without_the_change(
        text, acted_on, now.sighting
    ):
        return "not yet seen"
    looks_the_same = acted_on is not None and now.sighting is not None and alike(acted_on, now.sighting)
    if looks_the_same or (now.failed.classification is not None and same_failure(now.failed, then)):
        return "did not hold"
    passed = now.sighting is not None and then.step in now.sighting.passed
    known = now.judged and then.cause is not None and then.step == now.failed.step
    return "held" if passed or known else "not yet seen"


def together(outcomes: Iterable[FollowUpOutcome]) -> FollowUpOutcome:
    """What several later runs say: one in which it did not hold is enough."""
    said = set(outcomes)
    return "did not hold" if "did not hold" in said else "held" if "held" in said else "not yet seen"


def undated(text: str) -> str:
    """An action without the date that it begins with."""
    return text[match.end() :] if (match := DATED.match(text)) else text


def told(finding: FindingSummary) -> Told:
    return Told(finding.step, finding.classification, finding.cause, finding.error, finding.cause_kind)


def tells_why(finding: FindingSummary) -> bool:
    return finding.classification is not None and not finding.uncertain and finding.cause_kind != "infrastructure"


def few_open(total: int | None, incomplete: int | None) -> bool:
    """Whether so few evals never completed that one which is not among the failures has most likely passed."""
    return not incomplete or (total is not None and incomplete <= OPEN_SHARE * total)


def ran_whole(run: AnalyzedRun, listed: int) -> bool:
    """As a report tells it."""
    return (run.failed is None or listed >= run.failed) and few_open(run.total, run.incomplete)


def _made_after(text: str, date: str | None) -> bool:
    made = DATED.match(text)
    return bool(made and date and made[1] > date)


def _never_came_so_far(
    then: Told, acted_on: FailureFingerprint | None, failed: Told, now: FailureFingerprint | None
) -> bool:
    """Whether the eval ended before the model's work, as it had not when something was done about it."""
    never_did = acted_on is not None and not acted_on.judged
    same_end = then.kind in NOT_THE_MODEL and then.step == failed.step
    ended = not now.judged if now is not None else then.step is not None and failed.step is None
    return ended and not never_did and not same_end


def _without_the_change(text: str, acted_on: FailureFingerprint | None, now: FailureFingerprint | None) -> bool:
    known = acted_on is not None and now is not None and same_version(acted_on, now)
    return known and OF_THE_EVAL.search(text) is not None
