"""Labels that a target gave beside those that were expected of it."""

from collections.abc import Iterable

from pydantic import JsonValue

from evalscribe.calibration import Calibration, Pair
from evalscribe.run_summary import LabelRow, LabelSummary

LABEL = "label"
"""The field of an output and of an expected output that holds it."""


def label_in(value: JsonValue) -> str | None:
    """`{"label": …}` or the label alone; None where there is none."""
    found = value.get(LABEL) if isinstance(value, dict) else value
    return found if isinstance(found, str) else None


def labels(pairs: Iterable[tuple[str, str | None]]) -> LabelSummary | None:
    """What was expected and what was said, try by try; None where nothing was expected."""
    found = Calibration(Pair(truth=truth, said=said) for truth, said in pairs)
    if not found.pairs:
        return None
    return LabelSummary(
        pairs=len(found.pairs),
        judged=found.judged,
        agreement=found.agreement,
        balanced_accuracy=found.balanced,
        kappa=found.kappa.value if found.kappa else None,
        kappa_low=found.kappa.interval.low if found.kappa else None,
        kappa_high=found.kappa.interval.high if found.kappa else None,
        rows=tuple(_row(found, label) for label in found.labels),
    )


def _row(found: Calibration, label: str) -> LabelRow:
    score = found.score(label)
    given = {said: count for said in found.labels if (count := found.confusion(label, said))}
    return LabelRow(label=label, expected=score.truths, given=given, recall=score.recall, precision=score.precision)
