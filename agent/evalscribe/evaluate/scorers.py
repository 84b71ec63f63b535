"""What each scorer said over a whole run, as its scores are read one after the other."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import fsum

from evalscribe.evaluate.shares import Shares
from evalscribe.model.experiment import ScorerSummary
from evalscribe.model.score import Binding, Score


class ScorerTallies:
    """Of every scorer of a version, and of those of earlier versions that a run was scored by."""

    def __init__(self, bindings: Sequence[Binding], clusters: Mapping[str, str]) -> None:
        """`clusters` of items, by key."""
        self._clusters = clusters
        self._of = {one.spec.name: _Scorer(one.spec.name, one.spec.id, one.required) for one in bindings}
        self.broken = 0
        """Tries of which a required scorer broke and none failed it."""

    def read(self, scores: Iterable[Score]) -> None:
        """Current ones, those of an item in a row."""
        for key, of_item in groupby(scores, key=lambda one: one.item_key):
            cluster = self._clusters.get(key)
            whole = list(of_item)
            self._count_broken(whole)
            for name, of_scorer in _by_scorer(whole).items():
                self._of.setdefault(name, _Scorer(name, of_scorer[0].scorer_version_id, of_scorer[0].required)).add(
                    cluster, of_scorer
                )

    def _count_broken(self, scores: Sequence[Score]) -> None:
        required = [score for score in scores if score.required]
        failed = {score.run_item_id for score in required if score.status == "ok" and not score.passed}
        broke = {score.run_item_id for score in required if score.status == "error"}
        self.broken += len(broke - failed)

    @property
    def cost_usd(self) -> float:
        return fsum(one.cost_usd for one in self._of.values())

    @property
    def summaries(self) -> tuple[ScorerSummary, ...]:
        """In the order of the bindings."""
        return tuple(one.summary for one in self._of.values())


def _by_scorer(scores: Iterable[Score]) -> dict[str, list[Score]]:
    found: dict[str, list[Score]] = {}
    for score in scores:
        found.setdefault(score.scorer, []).append(score)
    return found


class _Scorer:
    def __init__(self, name: str, version_id: str, required: bool) -> None:
        self.name = name
        self.version_id = version_id
        self.required = required
        self.shares = Shares()
        self.errors: Counter[str] = Counter()
        self.unscored = 0
        self.values = 0
        self.total = 0.0
        self.cost_usd = 0.0

    def add(self, cluster: str | None, scores: Sequence[Score]) -> None:
        """Of one item."""
        told = [score for score in scores if score.status == "ok"]
        self.shares.add(cluster, sum(bool(score.passed) for score in told), len(told))
        for score in scores:
            self.cost_usd += score.cost_usd
            self.unscored += score.status == "unscored"
            if score.status == "error":
                self.errors[score.error_type or "scorer_error"] += 1
            elif score.value is not None:
                self.values += 1
                self.total += score.value

    @property
    def summary(self) -> ScorerSummary:
        share = self.shares.share
        return ScorerSummary(
            scorer=self.name,
            scorer_version_id=self.version_id,
            required=self.required,
            scored=share.of,
            unscored=self.unscored,
            errors=dict(sorted(self.errors.items())),
            mean=self.total / self.values if self.values else None,
            pass_rate=share,
            cost_usd=self.cost_usd,
        )
