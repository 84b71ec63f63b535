"""How one failure relates to what earlier reports of the model say of the same eval."""

from collections.abc import Sequence

from evalscribe.across import Told, same_failure
from evalscribe.model.finding import Precedent, Recurrence, Verdict


def recurrence(verdict: Verdict | None, step: str | None, precedents: Sequence[Precedent]) -> Recurrence:
    """`precedents` are those of this eval, newest first, of comparable runs only."""
    if not precedents:
        return Recurrence()
    reports = tuple(dict.fromkeys(precedent.report for precedent in precedents))
    newest = precedents[0]
    if verdict is not None and not same_failure(_now(verdict, step), _then(newest)):
        return Recurrence(kind="changed", reports=reports)
    action = next((precedent.action for precedent in precedents if precedent.action), None)
    return Recurrence(kind="fix-in-doubt" if action else "repeat", reports=reports, action=action)


def _now(verdict: Verdict, step: str | None) -> Told:
    return Told(step, verdict.classification, verdict.cause, verdict.error)


def _then(earlier: Precedent) -> Told:
    return Told(earlier.step, earlier.classification, earlier.cause, earlier.error)
