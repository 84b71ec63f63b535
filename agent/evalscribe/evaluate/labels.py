"""Labels that a target gave beside those that were expected of it."""

from collections.abc import Iterable

from pydantic import JsonValue

from evalscribe.calibration import Calibration, LabelPair
from evalscribe.model.experiment import LabelRow, LabelSummary

FIELDS = ("classification", "label")
"""Of an output and of an expected output, either of which may hold the label."""
NO_LABEL = "(none)"
"""What was said where there is no answer, or none with a label."""


def label_pair(expected: JsonValue, output: JsonValue) -> tuple[str, str | None] | None:
    """What is expected, and what the same field of the output says; None where no label is expected.

    A text is a label; of an object `classification`, else `label`, else its only member. A yes is `true`.
    """
    if not isinstance(expected, dict):
        truth = _spelled(expected)
        return None if truth is None else (truth, _said(output))
    known = [name for name in FIELDS if name in expected] or (list(expected) if len(expected) == 1 else [])
    truth = _spelled(expected[known[0]]) if known else None
    return None if truth is None else (truth, _said(output, *known[:1]))


def _said(output: JsonValue, *field: str) -> str | None:
    if not isinstance(output, dict):
        return _spelled(output)
    return next((_spelled(output[name]) for name in (*field, *FIELDS) if name in output), None)


def _spelled(value: JsonValue) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else None


def labels(pairs: Iterable[LabelPair]) -> LabelSummary | None:
    """What was expected and what was said, try by try; None where nothing was expected.

    A try without a label agrees with nothing: who answers only what is easy gains nothing by it.
    """
    given = tuple(pairs)
    unlabelled = {"predicted": NO_LABEL}
    found = Calibration(pair.model_copy(update=unlabelled) if pair.predicted is None else pair for pair in given)
    if not given:
        return None
    return LabelSummary(
        pairs=len(given),
        judged=sum(pair.predicted is not None for pair in given),
        agreement=found.agreement,
        balanced_accuracy=found.balanced,
        kappa=found.kappa.value if found.kappa else None,
        kappa_low=found.kappa.interval.low if found.kappa else None,
        kappa_high=found.kappa.interval.high if found.kappa else None,
        rows=tuple(_row(found, label) for label in found.labels if label != NO_LABEL),
    )


def _row(found: Calibration, label: str) -> LabelRow:
    score = found.score(label)
    given = {said: count for said in found.labels if (count := found.confusion(label, said))}
    return LabelRow(label=label, expected=score.truths, given=given, recall=score.recall, precision=score.precision)
