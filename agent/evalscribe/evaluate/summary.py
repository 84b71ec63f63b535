"""What a run came to, out of its tries and their scores as they are read one after the other."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import ceil
from typing import NamedTuple

from evalscribe.evaluate.scorers import ScorerTallies
from evalscribe.evaluate.shares import Shares
from evalscribe.model.experiment import (
    Experiment,
    ExperimentRun,
    ExperimentVersion,
    LabelSummary,
    PassAtK,
    RunItem,
    RunSummary,
    SplitSummary,
    TrialCounts,
)
from evalscribe.model.score import Score
from evalscribe.statistics.intervals import pass_at, pass_every


class Place(NamedTuple):
    """An item of the dataset version, without what is in it."""

    key: str
    split: str | None = None
    cluster: str | None = None


def summarised(
    run: ExperimentRun,
    experiment: Experiment,
    version: ExperimentVersion,
    places: Iterable[Place],
    tries: Iterable[RunItem],
    scores: Iterable[Score],
    *,
    labels: LabelSummary | None = None,
) -> RunSummary:
    """`places`: every item of the dataset version in order; `tries` by item in that order; `scores` by item.

    Reads each once and keeps none: what it holds grows with clusters, flaky items and the tries' durations only.
    """
    clusters: dict[str, str] = {}
    tallies = _Tries(run.repetitions)
    for place, of_item in _by_place(places, tries):
        if place.cluster is not None:
            clusters[place.key] = place.cluster
        tallies.add(place, of_item)
    scorers = ScorerTallies(version.bindings, clusters)
    scorers.read(scores)
    return _told(run, experiment, version, tallies, scorers).model_copy(update={"labels": labels})


def _by_place(places: Iterable[Place], tries: Iterable[RunItem]) -> Iterator[tuple[Place, Sequence[RunItem]]]:
    """Every item with its tries; none where the run ended before it."""
    groups = groupby(tries, key=lambda one: one.item_key)
    key, group = next(groups, (None, iter(())))
    for place in places:
        if place.key != key:
            yield place, ()
            continue
        yield place, tuple(group)
        key, group = next(groups, (None, iter(())))


class _Part:
    """All tries, or those of one split."""

    def __init__(self) -> None:
        self.items = 0
        self.counts: Counter[str] = Counter()
        self.shares = Shares()

    def add(self, place: Place, verdicts: Counter[str], repetitions: int) -> None:
        self.items += 1
        self.counts.update(verdicts)
        self.counts["missing"] += repetitions - verdicts.total()
        self.shares.add(place.cluster, verdicts["passed"], repetitions)


class _Tries:
    """What tries come to, item by item."""

    def __init__(self, repetitions: int) -> None:
        self.repetitions = repetitions
        self.whole = _Part()
        self.splits: dict[str | None, _Part] = {}
        self.failed_items = 0
        self.flaky: list[str] = []
        self.passes: Counter[tuple[int, int]] = Counter()
        """Items by their tries and by how many of these passed."""
        self.durations = array("d")
        self.cost_usd = 0.0
        self.input_tokens = 0
        self.output_tokens = 0

    def add(self, place: Place, tries: Sequence[RunItem]) -> None:
        verdicts = Counter[str](one.verdict for one in tries)
        passed = verdicts["passed"]
        self.whole.add(place, verdicts, self.repetitions)
        self.splits.setdefault(place.split, _Part()).add(place, verdicts, self.repetitions)
        self.passes[len(tries), passed] += 1
        self.failed_items += passed < self.repetitions
        if 0 < passed < len(tries):
            self.flaky.append(place.key)
        for one in tries:
            self._spend(one)

    def _spend(self, one: RunItem) -> None:
        self.durations.append(one.duration_ms)
        if one.usage is not None:
            self.cost_usd += one.usage.cost_usd
            self.input_tokens += one.usage.input_tokens
            self.output_tokens += one.usage.output_tokens


def _told(
    run: ExperimentRun, experiment: Experiment, version: ExperimentVersion, tries: _Tries, scorers: ScorerTallies
) -> RunSummary:
    counts = TrialCounts(**tries.whole.counts)
    scored = counts.passed + counts.failed
    durations = sorted(tries.durations)
    return RunSummary(
        run_id=run.id,
        name=run.name,
        experiment_id=run.experiment_id,
        experiment=experiment.name,
        experiment_version_id=version.id,
        version=version.number,
        dataset_version_id=run.dataset_version_id,
        deployment_id=run.deployment_id,
        state=run.state,
        reason=run.reason,
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        items=tries.whole.items,
        repetitions=run.repetitions,
        tries=tries.whole.items * run.repetitions,
        counts=counts,
        broken=min(counts.unscored, scorers.broken),
        pass_rate=tries.whole.shares.share,
        rate_of_scored=counts.passed / scored if scored else None,
        failed_items=tries.failed_items,
        flaky=tuple(tries.flaky),
        observations=tries.whole.shares.observations,
        at_k=tuple(_at_k(tries.passes, k) for k in range(1, run.repetitions + 1)) if run.repetitions > 1 else (),
        scorers=scorers.summaries,
        splits=tuple(_splits(tries)),
        cost_usd=tries.cost_usd + scorers.cost_usd,
        input_tokens=tries.input_tokens,
        output_tokens=tries.output_tokens,
        duration_p50_ms=_quantile(durations, 0.5),
        duration_p95_ms=_quantile(durations, 0.95),
    )


def _splits(tries: _Tries) -> Iterator[SplitSummary]:
    if len(tries.splits) < 2:
        return
    for split, part in tries.splits.items():
        yield SplitSummary(
            split=split or "none", items=part.items, counts=TrialCounts(**part.counts), pass_rate=part.shares.share
        )


def _at_k(passes: Counter[tuple[int, int]], k: int) -> PassAtK:
    """Each item's chance over all choices of `k` of its tries, averaged; items with fewer tries are left out."""
    items, at, every = 0, 0.0, 0.0
    for (tried, passed), count in passes.items():
        if tried >= k:
            items += count
            at += count * (pass_at(passed, tried, k) or 0.0)
            every += count * (pass_every(passed, tried, k) or 0.0)
    return PassAtK(k=k, items=items, pass_at=at / items if items else 0.0, pass_hat=every / items if items else 0.0)


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest rank."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None
