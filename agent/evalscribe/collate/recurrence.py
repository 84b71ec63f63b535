"""How one failure relates to what earlier reports of the model say of the same eval."""

from collections.abc import Sequence

from evalscribe.finding import Precedent, Recurrence, Verdict
from evalscribe.signature import is_stock, normalised


def recurrence(verdict: Verdict | None, step: str | None, precedents: Sequence[Precedent]) -> Recurrence:
    """`precedents` are those of this eval, newest first, of comparable runs only."""
    if not precedents:
        return Recurrence()
    reports = tuple(dict.fromkeys(precedent.report for precedent in precedents))
    newest = precedents[0]
    if verdict is not None and not same_failure(verdict, step, newest):
        return Recurrence(kind="changed", reports=reports)
    action = next((precedent.action for precedent in precedents if precedent.action), None)
    return Recurrence(kind="fix-in-doubt" if action else "repeat", reports=reports, action=action)


def same_failure(verdict: Verdict, step: str | None, earlier: Precedent) -> bool:
    """Whether the eval failed for the same cause: by name, else by error, else by step and label.

    People's reports name no cause in our words and paraphrase the error, so for them the step and the label decide.
    """
    if earlier.cause is not None:
        return earlier.cause == verdict.cause or _same_error(verdict.error, earlier.error or "")
    same_step = earlier.step is None or step is None or earlier.step == step
    same_label = earlier.classification is None or earlier.classification == verdict.classification
    return same_step and same_label


def _same_error(mine: str, theirs: str) -> bool:
    """A stock message equals nothing, not even the same eval in another run."""
    return not is_stock(mine) and normalised(mine) == normalised(theirs)
