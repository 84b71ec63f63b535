"""How one failure relates to what earlier reports of the model say of the same eval."""

from collections.abc import Sequence

from evalscribe.finding import Precedent, Recurrence, Verdict
from evalscribe.signature import signature_of_text


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
        mine, theirs = signature_of_text(step, verdict.error), signature_of_text(earlier.step, earlier.error or "")
        return earlier.cause == verdict.cause or (mine is not None and mine == theirs)
    same_step = earlier.step is None or step is None or earlier.step == step
    same_label = earlier.classification is None or earlier.classification == verdict.classification
    return same_step and same_label
