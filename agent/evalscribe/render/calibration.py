"""Judges beside people, as tables for a terminal."""

from collections.abc import Iterator

from evalscribe.calibration import Calibration
from evalscribe.prose import printable
from evalscribe.statistics import Interval

NONE = "-"
"""Where a share has nothing to be a share of."""


def confusion(found: Calibration, corner: str) -> list[str]:
    """Rows what people said, columns what the judge did; labels that neither said are left to `labels`."""
    wide = max(16, *(len(label) + 2 for label in found.labels)) if found.labels else 16
    first = max(20, len(corner) + 2, *(len(label) + 2 for label in found.labels)) if found.labels else 20
    head = corner.ljust(first) + "".join(printable(label).rjust(wide) for label in found.labels)
    return [head, *_rows(found, first, wide)]


def _rows(found: Calibration, first: int, wide: int) -> Iterator[str]:
    for truth in found.labels:
        counts = (str(found.confusion(truth, said)).rjust(wide) for said in found.labels)
        yield printable(truth).ljust(first) + "".join(counts)


def share(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def span(interval: Interval) -> str:
    return ", ".join(f"{round(end, 2) + 0.0:.2f}" for end in interval)


def beyond_luck(found: Calibration) -> str:
    """`0.76 [0.64, 0.88]`; a dash where luck alone explains every agreement."""
    return NONE if found.kappa is None else f"{found.kappa.value:.2f} [{span(found.kappa.interval)}]"
