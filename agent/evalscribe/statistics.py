"""How sure a share is, given how often it was tried."""

from typing import NamedTuple

from evalscribe.errors import UsageError


class Interval(NamedTuple):
    """Both ends between 0 and 1."""

    low: float
    high: float


def wilson(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """The Wilson score interval of a share; (0, 1) where nothing was tried. Raises `UsageError` without scipy."""
    if trials == 0:
        return Interval(0.0, 1.0)
    try:
        from scipy.stats import binomtest  # type: ignore[import-untyped]
    except ImportError as error:
        raise UsageError("statistics need scipy: pip install 'evalscribe[stats]'") from error
    found = binomtest(successes, trials).proportion_ci(confidence_level=confidence, method="wilson")
    return Interval(float(found.low), float(found.high))
