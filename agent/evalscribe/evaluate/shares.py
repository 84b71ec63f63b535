"""Shares of tries that arrive item by item, in memory that does not grow with their number."""

from collections import Counter

from evalscribe.model.experiment import PassRate
from evalscribe.statistics.intervals import TrialCluster, cluster_interval, wilson_interval


class Shares:
    """How many tries passed, and how sure that is. Items of a cluster are one observation, as are tries of an item."""

    def __init__(self) -> None:
        self._alone: Counter[TrialCluster] = Counter()
        self._together: dict[str, TrialCluster] = {}

    def add(self, cluster: str | None, passed: int, tries: int) -> None:
        """All tries of one item."""
        if not tries:
            return
        if cluster is None:
            self._alone[TrialCluster(passed, tries)] += 1
        else:
            before = self._together.get(cluster, TrialCluster(0, 0))
            self._together[cluster] = TrialCluster(before.passed + passed, before.trials + tries)

    @property
    def observations(self) -> int:
        return self._alone.total() + len(self._together)

    @property
    def share(self) -> PassRate:
        found = self._alone + Counter(self._together.values())
        passed = sum(one.passed * count for one, count in found.items())
        tries = sum(one.trials * count for one, count in found.items())
        single = all(one.trials == 1 for one in found)
        low, high = wilson_interval(passed, tries) if single else cluster_interval(found)
        return PassRate(passed=passed, of=tries, value=passed / tries if tries else None, low=low, high=high)
