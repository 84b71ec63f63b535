"""A paired result as comparisons tell it."""

from evalscribe.comparison import Difference
from evalscribe.statistics.detectable import SIGNIFICANT
from evalscribe.statistics.paired import Paired


def difference(found: Paired, p: float | None = None) -> Difference:
    """`p`: corrected for several comparisons."""
    chance = found.luck.p if p is None else p
    return Difference(
        difference=found.difference,
        low=found.interval.low,
        high=found.interval.high,
        p=chance,
        exact=found.luck.exact,
        tasks=found.tasks,
        detectable=found.detectable,
        significant=chance <= SIGNIFICANT,
    )
