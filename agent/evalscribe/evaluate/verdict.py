"""Whether a try at an item passes: the one definition, which runs, gates and comparisons share."""

from collections.abc import Mapping, Sequence
from typing import Literal

from evalscribe.model.experiment import ItemVerdict
from evalscribe.model.score import Binding, ScoreResult
from evalscribe.model.target import TargetFailureKind


def judged(result: ScoreResult, binding: Binding) -> ScoreResult:
    """The result by the binding's own threshold, where it has one; a value at the threshold passes."""
    if binding.threshold is None or result.status != "ok" or result.value is None:
        return result
    return result.model_copy(update={"passed": result.value >= binding.threshold})


def verdict(
    status: Literal["ok"] | TargetFailureKind, results: Mapping[str, ScoreResult], bindings: Sequence[Binding]
) -> ItemVerdict:
    """`results` by the name of their binding, their thresholds applied; one that is missing counts as broken.

    A required scorer that failed the item weighs more than another one that broke.
    """
    if status != "ok":
        return "error"
    said = [_said(results.get(binding.spec.name)) for binding in bindings if binding.required]
    if "failed" in said:
        return "failed"
    return "unscored" if "unscored" in said else "passed"


def _said(result: ScoreResult | None) -> ItemVerdict:
    if result is None or result.status != "ok":
        return "unscored"
    return "passed" if result.passed else "failed"
