"""Shares of tries that arrive item by item, in memory that does not grow with their number."""

from collections import Counter

from evalscribe.run_summary import Share
from evalscribe.statistics import Cluster, clustered, wilson


class Shares:
    """How many tries passed, and how sure that is. Items of a cluster are one observation, as are tries of an item."""

    def __init__(self) -> None:
        self._alone: Counter[Cluster] = Counter()
        self._together: dict[str, Cluster] = {}

    def add(self, cluster: str | None, passed: int, tries: int) -> None:
        """All tries of one item."""
        if not tries:
            return
        if cluster is None:
            self._alone[Cluster(passed, tries)] += 1
        else:
            before = self._together.get(cluster, Cluster(0, 0))
            self._together[cluster] = Cluster(before.passed + passed, before.tries + tries)

    @property
    def observations(self) -> int:
        return self._alone.total() + len(self._together)

    @property
    def share(self) -> Share:
        found = self._alone + Counter(self._together.values())
        passed = sum(one.passed * count for one, count in found.items())
        tries = sum(one.tries * count for one, count in found.items())
        single = all(one.tries == 1 for one in found)
        low, high = wilson(passed, tries) if single else clustered(found)
        return Share(passed=passed, of=tries, value=passed / tries if tries else None, low=low, high=high)
