"""Summarise a run: pass rates, scores by scorer, labels, cost and time."""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import ceil, fsum
from typing import NamedTuple

from pydantic import JsonValue

from evalscribe.model.experiment import (
    Experiment,
    ExperimentRun,
    ExperimentVersion,
    LabelRow,
    LabelSummary,
    PassAtK,
    PassRate,
    RunItem,
    RunSummary,
    ScorerSummary,
    SplitSummary,
    TrialCounts,
    TrialErrors,
)
from evalscribe.model.score import Binding, Score
from evalscribe.statistics.agreement import Calibration, LabelPair
from evalscribe.statistics.intervals import TrialCluster, cluster_interval, pass_at, pass_every, wilson_interval
from evalscribe.text import cut, one_line


class PassRates:
    """Collects trials, and computes their pass rate and its confidence interval.

    All trials of one item count as one observation, and so do all items of one cluster.
    """

    def __init__(self) -> None:
        self._single_items: Counter[TrialCluster] = Counter()
        self._shared_clusters: dict[str, TrialCluster] = {}

    def add(self, cluster: str | None, passed: int, trials: int) -> None:
        """Add all trials of one item."""
        if not trials:
            return
        if cluster is None:
            self._single_items[TrialCluster(passed, trials)] += 1
        else:
            previous = self._shared_clusters.get(cluster, TrialCluster(0, 0))
            self._shared_clusters[cluster] = TrialCluster(previous.passed + passed, previous.trials + trials)

    @property
    def observations(self) -> int:
        return self._single_items.total() + len(self._shared_clusters)

    @property
    def share(self) -> PassRate:
        counts = self._single_items + Counter(self._shared_clusters.values())
        passed = sum(cluster.passed * count for cluster, count in counts.items())
        trials = sum(cluster.trials * count for cluster, count in counts.items())
        single = all(cluster.trials == 1 for cluster in counts)
        low, high = wilson_interval(passed, trials) if single else cluster_interval(counts)
        return PassRate(passed=passed, of=trials, value=passed / trials if trials else None, low=low, high=high)


class ScorerTallies:
    """Tallies of a version's scorers, and of any other scorers for which the run has scores."""

    def __init__(self, bindings: Sequence[Binding], clusters: Mapping[str, str]) -> None:
        """Create empty tallies. `clusters` maps the keys of items to their clusters."""
        self._clusters = clusters
        self._tallies = {
            binding.spec.name: _ScorerTally(binding.spec.name, binding.spec.id, binding.required)
            for binding in bindings
        }
        self.broken = 0
        """Number of trials on which a required scorer broke and no required scorer failed."""

    def read(self, scores: Iterable[Score]) -> None:
        """Add current scores, which must be grouped by item."""
        for key, group in groupby(scores, key=lambda score: score.item_key):
            cluster = self._clusters.get(key)
            item_scores = list(group)
            self._count_broken(item_scores)
            for name, scorer_scores in _by_scorer(item_scores).items():
                self._tallies.setdefault(
                    name, _ScorerTally(name, scorer_scores[0].scorer_version_id, scorer_scores[0].required)
                ).add(cluster, scorer_scores)

    def _count_broken(self, scores: Sequence[Score]) -> None:
        required = [score for score in scores if score.required]
        failed = {score.run_item_id for score in required if score.status == "ok" and not score.passed}
        broken = {score.run_item_id for score in required if score.status == "error"}
        self.broken += len(broken - failed)

    @property
    def cost_usd(self) -> float:
        return fsum(tally.cost_usd for tally in self._tallies.values())

    @property
    def summaries(self) -> tuple[ScorerSummary, ...]:
        """Return the summaries. The summaries of the version's scorers come first, in the order of the bindings."""
        return tuple(tally.summary for tally in self._tallies.values())


def _by_scorer(scores: Iterable[Score]) -> dict[str, list[Score]]:
    scores_by_name: dict[str, list[Score]] = {}
    for score in scores:
        scores_by_name.setdefault(score.scorer, []).append(score)
    return scores_by_name


class _ScorerTally:
    def __init__(self, name: str, version_id: str, required: bool) -> None:
        self.name = name
        self.version_id = version_id
        self.required = required
        self.shares = PassRates()
        self.errors: Counter[str] = Counter()
        self.unscored = 0
        self.values = 0
        self.total = 0.0
        self.cost_usd = 0.0

    def add(self, cluster: str | None, scores: Sequence[Score]) -> None:
        """Add the scores of one item."""
        results = [score for score in scores if score.status == "ok"]
        self.shares.add(cluster, sum(bool(score.passed) for score in results), len(results))
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


class DatasetPlace(NamedTuple):
    """Where an item belongs in the dataset version: its key, split and cluster."""

    key: str
    split: str | None = None
    cluster: str | None = None


def summarise_run(
    run: ExperimentRun,
    experiment: Experiment,
    version: ExperimentVersion,
    places: Iterable[DatasetPlace],
    run_items: Iterable[RunItem],
    scores: Iterable[Score],
    *,
    labels: LabelSummary | None = None,
) -> RunSummary:
    """Summarise a run in a single pass.

    Memory grows only with the numbers of clusters, flaky items and trials (for their durations).

    Args:
        places: The key, split and cluster of every item that the run covers, in the order of the dataset version.
        run_items: The trials, grouped by item, in the same order.
        scores: The scores, grouped by item.
    """
    clusters: dict[str, str] = {}
    tallies = _TrialTallies(run.repetitions)
    for place, trials in _by_place(places, run_items):
        if place.cluster is not None:
            clusters[place.key] = place.cluster
        tallies.add(place, trials)
    scorers = ScorerTallies(version.bindings, clusters)
    scorers.read(scores)
    return _run_summary(run, experiment, version, tallies, scorers).model_copy(update={"labels": labels})


def _by_place(
    places: Iterable[DatasetPlace], run_items: Iterable[RunItem]
) -> Iterator[tuple[DatasetPlace, Sequence[RunItem]]]:
    """Yield every item with its trials. An item that the run did not reach has no trials."""
    groups = groupby(run_items, key=lambda run_item: run_item.item_key)
    key, group = next(groups, (None, iter(())))
    for place in places:
        if place.key != key:
            yield place, ()
            continue
        yield place, tuple(group)
        key, group = next(groups, (None, iter(())))


MAX_REASONS = 10
"""Maximum number of reasons for missing answers in a summary."""
MAX_REASONS_COUNTED = 1_000
"""Maximum number of distinct reasons that are counted. A target can give a different reason in each trial."""
REASON_LENGTH = 160
# An exception as Python targets report it, such as `ValueError: no order 3 (agent.py:5)`. The message is not captured.
EXCEPTION_PATTERN = re.compile(r"([A-Za-z_][\w.]*)(?:: .*)? (\([^()\s]+:\d+\))")


def error_reason(error: str | None) -> str:
    """Return a phrase that says why a trial gave no answer, such as `raised NameError (agent.py:5)`."""
    text = one_line(error or "")
    # The message is left out, because it often quotes the input. Exceptions of one type at one line are one reason.
    if raised := EXCEPTION_PATTERN.fullmatch(text):
        return f"raised {raised[1]} {raised[2]}"
    return f"gave no answer: {cut(text, REASON_LENGTH)}" if text else "gave no answer"


class _Tally:
    """Tallies of trials, either of all trials or of the trials of one split."""

    def __init__(self) -> None:
        self.items = 0
        self.counts: Counter[str] = Counter()
        self.shares = PassRates()

    def add(self, place: DatasetPlace, verdicts: Counter[str], repetitions: int) -> None:
        self.items += 1
        self.counts.update(verdicts)
        self.counts["missing"] += repetitions - verdicts.total()
        # All planned trials count, so a trial that did not run or gave no verdict has not passed.
        self.shares.add(place.cluster, verdicts["passed"], repetitions)


class _TrialTallies:
    """Tallies of all trials. Trials are added item by item."""

    def __init__(self, repetitions: int) -> None:
        self.repetitions = repetitions
        self.overall = _Tally()
        self.splits: dict[str | None, _Tally] = {}
        self.failed_items = 0
        self.flaky: list[str] = []
        self.passes: Counter[tuple[int, int]] = Counter()
        """Number of items for each combination of the number of trials and the number of passed trials."""
        self.errors: Counter[str] = Counter()
        # An array, because there is one duration for each trial: a float in a list takes four times the memory.
        self.durations = array("d")
        self.cost_usd = 0.0
        self.input_tokens = 0
        self.output_tokens = 0

    def add(self, place: DatasetPlace, trials: Sequence[RunItem]) -> None:
        verdicts = Counter[str](trial.verdict for trial in trials)
        passed = verdicts["passed"]
        self.overall.add(place, verdicts, self.repetitions)
        self.splits.setdefault(place.split, _Tally()).add(place, verdicts, self.repetitions)
        self.passes[len(trials), passed] += 1
        self.failed_items += passed < self.repetitions
        if 0 < passed < len(trials):
            self.flaky.append(place.key)
        for trial in trials:
            self._add_usage(trial)
            if trial.verdict == "error":
                reason = error_reason(trial.error)
                # A target can give a different reason in every trial, so memory use would be unlimited.
                full = reason not in self.errors and len(self.errors) >= MAX_REASONS_COUNTED
                self.errors["gave no answer for another reason" if full else reason] += 1

    def _add_usage(self, trial: RunItem) -> None:
        self.durations.append(trial.duration_ms)
        if trial.usage is not None:
            self.cost_usd += trial.usage.cost_usd
            self.input_tokens += trial.usage.input_tokens
            self.output_tokens += trial.usage.output_tokens


def _run_summary(
    run: ExperimentRun,
    experiment: Experiment,
    version: ExperimentVersion,
    tallies: _TrialTallies,
    scorers: ScorerTallies,
) -> RunSummary:
    counts = TrialCounts(**tallies.overall.counts)
    scored = counts.passed + counts.failed
    durations = sorted(tallies.durations)
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
        items=tallies.overall.items,
        repetitions=run.repetitions,
        tries=tallies.overall.items * run.repetitions,
        counts=counts,
        errors=tuple(
            TrialErrors(reason=reason, trials=number) for reason, number in tallies.errors.most_common(MAX_REASONS)
        ),
        broken=min(counts.unscored, scorers.broken),
        pass_rate=tallies.overall.shares.share,
        rate_of_scored=counts.passed / scored if scored else None,
        failed_items=tallies.failed_items,
        flaky=tuple(tallies.flaky),
        observations=tallies.overall.shares.observations,
        at_k=tuple(_at_k(tallies.passes, k) for k in range(1, run.repetitions + 1)) if run.repetitions > 1 else (),
        scorers=scorers.summaries,
        splits=tuple(_splits(tallies)),
        cost_usd=tallies.cost_usd + scorers.cost_usd,
        input_tokens=tallies.input_tokens,
        output_tokens=tallies.output_tokens,
        duration_p50_ms=_quantile(durations, 0.5),
        duration_p95_ms=_quantile(durations, 0.95),
    )


def _splits(tallies: _TrialTallies) -> Iterator[SplitSummary]:
    if len(tallies.splits) < 2:
        return
    for split, part in tallies.splits.items():
        yield SplitSummary(
            split=split or "none", items=part.items, counts=TrialCounts(**part.counts), pass_rate=part.shares.share
        )


def _at_k(passes: Counter[tuple[int, int]], k: int) -> PassAtK:
    """Return the average pass@k and pass^k of the items that have at least `k` trials."""
    items, pass_at_sum, pass_every_sum = 0, 0.0, 0.0
    for (trials, passed), count in passes.items():
        if trials >= k:
            items += count
            pass_at_sum += count * (pass_at(passed, trials, k) or 0.0)
            pass_every_sum += count * (pass_every(passed, trials, k) or 0.0)
    return PassAtK(
        k=k,
        items=items,
        pass_at=pass_at_sum / items if items else 0.0,
        pass_hat=pass_every_sum / items if items else 0.0,
    )


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the quantile of ordered values by the nearest-rank method; None if there are no values."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


FIELDS = ("classification", "label")
"""Keys under which an output or an expected output can contain the label."""
NO_LABEL = "(none)"
"""Label of a trial that has no output, or whose output has no label."""


def label_pair(expected: JsonValue, output: JsonValue) -> tuple[str, str | None] | None:
    """Return the expected label, and the label in the same field of the output; None if no label is expected.

    The label of a text is the text itself. The label of an object is its member `classification`, else `label`, else
    its only member. A boolean counts as `true` or `false`.
    """
    if not isinstance(expected, dict):
        truth = _label_text(expected)
        return None if truth is None else (truth, _output_label(output))
    fields = [name for name in FIELDS if name in expected] or (list(expected) if len(expected) == 1 else [])
    truth = _label_text(expected[fields[0]]) if fields else None
    return None if truth is None else (truth, _output_label(output, *fields[:1]))


def _output_label(output: JsonValue, *field: str) -> str | None:
    if not isinstance(output, dict):
        return _label_text(output)
    return next((_label_text(output[name]) for name in (*field, *FIELDS) if name in output), None)


def _label_text(value: JsonValue) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else None


def summarise_labels(pairs: Iterable[LabelPair]) -> LabelSummary | None:
    """Compare the expected label with the output's label, trial by trial. Return None if no label is expected."""
    all_pairs = tuple(pairs)
    # A trial without a given label counts as disagreement, so that a target gains nothing by answering only easy items.
    unlabelled = {"predicted": NO_LABEL}
    calibration = Calibration(
        pair.model_copy(update=unlabelled) if pair.predicted is None else pair for pair in all_pairs
    )
    if not all_pairs:
        return None
    return LabelSummary(
        pairs=len(all_pairs),
        judged=sum(pair.predicted is not None for pair in all_pairs),
        agreement=calibration.agreement,
        balanced_accuracy=calibration.balanced,
        kappa=calibration.kappa.value if calibration.kappa else None,
        kappa_low=calibration.kappa.interval.low if calibration.kappa else None,
        kappa_high=calibration.kappa.interval.high if calibration.kappa else None,
        rows=tuple(_row(calibration, label) for label in calibration.labels if label != NO_LABEL),
    )


def _row(calibration: Calibration, label: str) -> LabelRow:
    score = calibration.score(label)
    label_counts = {
        other_label: count for other_label in calibration.labels if (count := calibration.confusion(label, other_label))
    }
    return LabelRow(
        label=label, expected=score.expected, predicted=label_counts, recall=score.recall, precision=score.precision
    )
