"""Compare two runs: which items they share, what changed, and whether the change is significant."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean
from typing import Literal, NamedTuple

from evalscribe.errors import UsageError
from evalscribe.experiments.lookup import (
    baseline_named,
    experiment_of,
    items_of,
    require_ended,
    run_named,
    version_of_run,
)
from evalscribe.experiments.run_text import short_value
from evalscribe.experiments.trials import trial_verdict
from evalscribe.model.comparison import (
    ItemChange,
    ItemSide,
    PassAtKPair,
    RunComparison,
    RunSide,
    RunVerdict,
    ScoreKind,
    ScorerMovement,
    format_p_value,
    format_points,
)
from evalscribe.model.dataset import Item
from evalscribe.model.experiment import ExperimentRun, ExperimentVersion, ItemVerdict, RunItem, percent
from evalscribe.model.score import Binding, Score, ScoreQuery, ScoreResult, ScoreStatus
from evalscribe.statistics.intervals import pass_at, pass_every
from evalscribe.statistics.significance import (
    ALPHA,
    Paired,
    Task,
    compare_pairs,
    fisher_exact_test,
    holm,
    mean_difference,
)
from evalscribe.text import cut, join_first, one_line, pluralise
from evalscribe.workspace import Workspace


class ScorerOutcome(NamedTuple):
    """Outcome of one scorer on one trial."""

    status: ScoreStatus
    value: float | None
    passed: bool | None


class ScoredTrial(NamedTuple):
    """One trial of an item."""

    id: str
    answered: bool
    verdict: ItemVerdict
    scores: Mapping[str, ScorerOutcome]

    @property
    def scored(self) -> bool:
        return self.verdict in ("passed", "failed")


class ItemContent(NamedTuple):
    digest: str
    cluster: str | None


@dataclass(frozen=True)
class ComparedRun:
    run: ExperimentRun
    version: ExperimentVersion
    experiment: str
    """Name of the experiment that the run belongs to."""
    build: str | None
    items: Mapping[str, ItemContent]
    """The items that the run covers, by key, in the order of the dataset version."""
    trials_by_key: Mapping[str, Sequence[ScoredTrial]]
    """Trials by item key, in order of repetition. Items that the run never tried are missing."""

    def trials(self, key: str) -> Sequence[ScoredTrial]:
        return self.trials_by_key.get(key, ())

    def scored(self, key: str) -> tuple[ScoredTrial, ...]:
        return tuple(trial for trial in self.trials(key) if trial.scored)


def build_compared_run(
    run: ExperimentRun,
    version: ExperimentVersion,
    experiment: str,
    build: str | None,
    *,
    items: Iterable[Item],
    run_items: Iterable[RunItem],
    scores: Iterable[Score],
) -> ComparedRun:
    """Reduce a run to the data that a comparison needs.

    Args:
        scores: Current scores. Explanations of scores are not kept.
    """
    outcomes: dict[str, dict[str, ScorerOutcome]] = {}
    for score in scores:
        outcomes.setdefault(score.run_item_id, {})[score.scorer] = ScorerOutcome(
            score.status, score.value, score.passed
        )
    trials_by_key: dict[str, list[ScoredTrial]] = {}
    for run_item in sorted(run_items, key=lambda run_item: run_item.repetition):
        trial = ScoredTrial(run_item.id, run_item.status == "ok", run_item.verdict, outcomes.get(run_item.id, {}))
        trials_by_key.setdefault(run_item.item_key, []).append(trial)
    contents = {item.key: ItemContent(item.digest, item.cluster) for item in items}
    return ComparedRun(run, version, experiment, build, contents, trials_by_key)


def with_scorers(side: ComparedRun, bindings: Sequence[Binding]) -> ComparedRun:
    """Return the run with its verdicts recomputed from the given scorers only."""
    trials_by_key = {
        key: [trial._replace(verdict=_verdict(trial, bindings)) for trial in trials]
        for key, trials in side.trials_by_key.items()
    }
    return ComparedRun(side.run, side.version, side.experiment, side.build, side.items, trials_by_key)


def run_side(side: ComparedRun, keys: Sequence[str]) -> RunSide:
    """Summarise one side of a comparison on the given items."""
    verdicts = [trial.verdict for key in keys for trial in side.trials(key)]
    trial_count = len(keys) * side.run.repetitions
    return RunSide(
        run_id=side.run.id,
        name=side.run.name,
        experiment=side.experiment,
        experiment_version_id=side.version.id,
        dataset_version_id=side.run.dataset_version_id,
        build=side.build,
        state=side.run.state,
        repetitions=side.run.repetitions,
        tries=trial_count,
        passed=verdicts.count("passed"),
        failed=verdicts.count("failed"),
        errors=verdicts.count("error"),
        unscored=verdicts.count("unscored"),
        missing=max(0, trial_count - len(verdicts)),
        rate=verdicts.count("passed") / trial_count if trial_count else None,
        rate_of_scored=_mean_fraction([rate(trials) for key in keys if (trials := side.scored(key))]),
    )


def passes(trials: Iterable[ScoredTrial]) -> tuple[Fraction, ...]:
    """Return 1 for each trial that passed and 0 for each trial that did not pass."""
    return tuple(Fraction(trial.verdict == "passed") for trial in trials)


def rate(trials: Sequence[ScoredTrial]) -> Fraction:
    return sum(passes(trials), Fraction(0)) / len(trials)


def _mean_fraction(values: Sequence[Fraction]) -> float | None:
    return float(sum(values, Fraction(0)) / len(values)) if values else None


def _verdict(trial: ScoredTrial, bindings: Sequence[Binding]) -> ItemVerdict:
    results = {
        name: ScoreResult(status=outcome.status, value=outcome.value, passed=outcome.passed, explanation="as stored")
        for name, outcome in trial.scores.items()
    }
    return trial_verdict("ok" if trial.answered else "error", results, bindings)


MOST_NAMED = 5


class SharedItems(NamedTuple):
    """Items and scorers that both runs share."""

    keys: tuple[str, ...]
    """Keys of items with equal content in both runs, in the baseline's order."""
    bindings: tuple[Binding, ...]
    """Scorers that have the same version, threshold and required flag in both runs."""
    differences: tuple[str, ...]
    """One phrase for each difference between the runs; empty if the runs can be compared as they are."""

    @property
    def is_comparable(self) -> bool:
        """True if the runs can be compared: they share at least one item and at least one required scorer."""
        return bool(self.keys) and any(binding.required for binding in self.bindings)


def find_shared(base: ComparedRun, candidate: ComparedRun) -> SharedItems:
    same_items = _covered_items(base) == _covered_items(candidate)
    keys = tuple(
        key for key, content in base.items.items() if same_items or _equal_items(candidate.items.get(key), content)
    )
    base_bindings, candidate_bindings = _by_name(base), _by_name(candidate)
    bindings = tuple(
        binding
        for name, binding in base_bindings.items()
        if name in candidate_bindings and not _scorer_difference(binding, candidate_bindings[name])
    )
    items = () if same_items else tuple(_item_mismatches(base, candidate))
    return SharedItems(keys, bindings, (*items, *_scorer_mismatches(base_bindings, candidate_bindings)))


def _equal_items(left: object, right: object) -> bool:
    return left is not None and left == right


def _covered_items(side: ComparedRun) -> tuple[str, str | None]:
    return side.run.dataset_version_id, side.version.config.split


def _by_name(side: ComparedRun) -> Mapping[str, Binding]:
    return {binding.spec.name: binding for binding in side.version.bindings}


def _item_mismatches(base: ComparedRun, candidate: ComparedRun) -> Iterator[str]:
    kinds = {
        "is only in the base": [key for key in base.items if key not in candidate.items],
        "is only in the candidate": [key for key in candidate.items if key not in base.items],
        "differs": [
            key for key, content in base.items.items() if key in candidate.items and candidate.items[key] != content
        ],
    }
    if base.run.dataset_version_id != candidate.run.dataset_version_id:
        ids = f"{base.run.dataset_version_id} and {candidate.run.dataset_version_id}"
        yield f"the runs use different dataset versions, {ids}"
    if base.version.config.split != candidate.version.config.split:
        yield f"the base covered {base.version.config.tried} and the candidate covered {candidate.version.config.tried}"
    for difference, keys in kinds.items():
        if keys:
            text = difference.replace("is ", "are ").replace("differs", "differ") if len(keys) > 1 else difference
            yield f"{pluralise(len(keys), 'item')} {text}: {join_first(keys, MOST_NAMED)}"


def _scorer_mismatches(base: Mapping[str, Binding], candidate: Mapping[str, Binding]) -> Iterator[str]:
    for name in {**base, **candidate}:
        if name not in candidate:
            yield f"scorer {name} is only in the base"
        elif name not in base:
            yield f"scorer {name} is only in the candidate"
        elif difference := _scorer_difference(base[name], candidate[name]):
            yield f"scorer {name} differs: {difference}"


def _scorer_difference(base: Binding, candidate: Binding) -> str | None:
    """Describe how a scorer differs between baseline and candidate; None if it does not differ."""
    if base.spec.id != candidate.spec.id:
        return f"version {base.spec.id} and {candidate.spec.id}"
    if base.required != candidate.required:
        return f"required in the {'base' if base.required else 'candidate'} only"
    if base.threshold != candidate.threshold:
        return f"threshold {_threshold_text(base.threshold)} and {_threshold_text(candidate.threshold)}"
    return None


def _threshold_text(threshold: float | None) -> str:
    return "none" if threshold is None else f"{threshold:g}"


Kind = Literal["regressed", "fixed", "flaky"]


class ItemChanges(NamedTuple):
    regressed: tuple[ItemChange, ...]
    fixed: tuple[ItemChange, ...]
    flaky: tuple[ItemChange, ...]


def item_changes(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> ItemChanges:
    """Classify how each item changed. The items must have a verdict in both runs."""
    changes: dict[Kind, list[ItemChange]] = {"regressed": [], "fixed": [], "flaky": []}
    for key in keys:
        base_trials, candidate_trials = base.scored(key), candidate.scored(key)
        if kind := item_change(
            _passed_count(base_trials), len(base_trials), _passed_count(candidate_trials), len(candidate_trials)
        ):
            change = ItemChange(
                item=key,
                base=_item_side(base_trials),
                candidate=_item_side(candidate_trials),
                scorers=tuple(_differing_scorers(base_trials, candidate_trials)),
            )
            changes[kind].append(change)
    return ItemChanges(*(tuple(changes[kind]) for kind in ("regressed", "fixed", "flaky")))


def item_change(base_passed: int, base_trials: int, candidate_passed: int, candidate_trials: int) -> Kind | None:
    """Classify a change by the number of trials that passed on each side; None if nothing changed.

    An item that passed every trial and now passes none has regressed. An item that failed every trial and now passes
    all is fixed. If only some trials of a side passed, Fisher's exact test decides. If the sides differ significantly,
    the item has regressed or is fixed; otherwise, the item is flaky.
    """
    unanimous = base_passed in (0, base_trials) and candidate_passed in (0, candidate_trials)
    better = candidate_passed * base_trials > base_passed * candidate_trials
    if unanimous and bool(base_passed) == bool(candidate_passed):
        return None
    # Fisher's test alone would not report an item that passed all of 3 trials and now passes none (p = 0.1).
    if unanimous or fisher_exact_test((base_passed, candidate_passed), (base_trials, candidate_trials)) <= ALPHA:
        return "fixed" if better else "regressed"
    return "flaky"


def _passed_count(trials: Sequence[ScoredTrial]) -> int:
    return sum(trial.verdict == "passed" for trial in trials)


def _item_side(trials: Sequence[ScoredTrial]) -> ItemSide:
    return ItemSide(passed=_passed_count(trials), scored=len(trials))


def _differing_scorers(base_trials: Sequence[ScoredTrial], candidate_trials: Sequence[ScoredTrial]) -> Iterator[str]:
    """Yield the names of the scorers whose pass rates on the two sides differ."""
    for name in dict.fromkeys(name for trial in base_trials for name in trial.scores):
        results = [
            [outcome.passed for trial in trials if (outcome := trial.scores.get(name)) and outcome.status == "ok"]
            for trials in (base_trials, candidate_trials)
        ]
        if all(results) and results[0].count(True) * len(results[1]) != results[1].count(True) * len(results[0]):
            yield name


FINENESS = 10_000
"""Number of steps between 0 and 1. Scores are rounded to these steps before they are compared."""


class _ScorerComparison(NamedTuple):
    binding: Binding
    kind: ScoreKind
    tasks: Sequence[Task]
    paired: Paired
    broken: tuple[int, int]


def scorer_movements(
    base: ComparedRun, candidate: ComparedRun, keys: Sequence[str], bindings: Sequence[Binding]
) -> tuple[ScorerMovement, ...]:
    """Compare the scores of every scorer that scored at least one item on both sides."""
    comparisons = [
        comparison for binding in bindings if (comparison := _compare_scores(base, candidate, keys, binding))
    ]
    # Each scorer is one more chance of a false alarm.
    corrected = holm({comparison.binding.spec.name: comparison.paired.test.p_value for comparison in comparisons})
    return tuple(_scorer_movement(comparison, corrected[comparison.binding.spec.name]) for comparison in comparisons)


def pass_at_k_differences(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> tuple[PassAtKPair, ...]:
    """Compare pass@k for every k up to the number of repetitions in the run that has fewer.

    The result is empty if that number is 1.
    """
    max_k = min(base.run.repetitions, candidate.run.repetitions)
    return tuple(pair for k in range(1, max_k + 1) if max_k > 1 and (pair := _pass_at_k_pair(base, candidate, keys, k)))


def observation_units(base: ComparedRun, keys: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the unit of observation of each item: its cluster, or the item itself if it has no cluster."""
    pairs = ((key, base.items[key].cluster) for key in keys)
    # The key of an item can be equal to the name of a cluster.
    return tuple(("item", key) if cluster is None else ("cluster", cluster) for key, cluster in pairs)


def _compare_scores(
    base: ComparedRun, candidate: ComparedRun, keys: Sequence[str], binding: Binding
) -> _ScorerComparison | None:
    name = binding.spec.name
    kind: ScoreKind = "graded" if any(_is_graded(side, name) for side in (base, candidate)) else "passed"
    tasks_by_key = {
        key: Task(base_values, candidate_values)
        for key in keys
        if (base_values := _score_values(base, key, name, kind))
        and (candidate_values := _score_values(candidate, key, name, kind))
    }
    if not tasks_by_key:
        return None
    tasks = list(tasks_by_key.values())
    # The range is a divisor in `compare_pairs`, so it must not be 0 if all values are equal.
    values = [value for task in tasks for side in task for value in side]
    paired = compare_pairs(tasks, float(max(values) - min(values)) or 1.0, observation_units(base, list(tasks_by_key)))
    return _ScorerComparison(
        binding, kind, tasks, paired, (_count_broken(base, keys, name), _count_broken(candidate, keys, name))
    )


def _is_graded(side: ComparedRun, name: str) -> bool:
    outcomes = (trial.scores.get(name) for trials in side.trials_by_key.values() for trial in trials)
    return any(outcome and outcome.value is not None and outcome.value not in (0, 1) for outcome in outcomes)


def _score_values(side: ComparedRun, key: str, name: str, kind: ScoreKind) -> tuple[Fraction, ...]:
    outcomes = [outcome for trial in side.trials(key) if (outcome := trial.scores.get(name)) and outcome.status == "ok"]
    if kind == "passed":
        return tuple(Fraction(bool(outcome.passed)) for outcome in outcomes)
    values = (float(bool(outcome.passed)) if outcome.value is None else outcome.value for outcome in outcomes)
    # The exact test counts in units of the common denominator, which would be huge for arbitrary floats.
    return tuple(Fraction(round(value * FINENESS), FINENESS) for value in values)


def _count_broken(side: ComparedRun, keys: Sequence[str], name: str) -> int:
    outcomes = (trial.scores.get(name) for key in keys for trial in side.trials(key))
    return sum(outcome is not None and outcome.status != "ok" for outcome in outcomes)


def _scorer_movement(comparison: _ScorerComparison, p: float) -> ScorerMovement:
    base, candidate = (fmean(float(fmean(side)) for side in sides) for sides in zip(*comparison.tasks, strict=True))
    return ScorerMovement(
        name=comparison.binding.spec.name,
        required=comparison.binding.required,
        kind=comparison.kind,
        base=base,
        candidate=candidate,
        effect=mean_difference(comparison.paired, p),
        fell=sum(task.difference < 0 for task in comparison.tasks),
        rose=sum(task.difference > 0 for task in comparison.tasks),
        broken=comparison.broken,
    )


def _pass_at_k_pair(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str], k: int) -> PassAtKPair | None:
    shared_keys = [key for key in keys if min(len(base.scored(key)), len(candidate.scored(key))) >= k]
    if not shared_keys:
        return None
    base_counts, candidate_counts = (list(_pass_counts(side, shared_keys)) for side in (base, candidate))
    return PassAtKPair(
        k=k,
        items=len(shared_keys),
        any=(_mean_estimate(pass_at, base_counts, k), _mean_estimate(pass_at, candidate_counts, k)),
        every=(_mean_estimate(pass_every, base_counts, k), _mean_estimate(pass_every, candidate_counts, k)),
    )


def _pass_counts(side: ComparedRun, keys: Sequence[str]) -> Iterator[tuple[int, int]]:
    for key in keys:
        trials = side.scored(key)
        yield sum(trial.verdict == "passed" for trial in trials), len(trials)


def _mean_estimate(
    estimate: Callable[[int, int, int], float | None], counts: Sequence[tuple[int, int]], k: int
) -> float:
    return fmean(value for passed, trials in counts if (value := estimate(passed, trials, k)) is not None)


LEAST_COVERAGE = 0.8
"""Minimum share of trials with a verdict. If the share is lower, the comparison is inconclusive."""


class ComparisonOutcome(NamedTuple):
    verdict: RunVerdict
    message: str


def decide_outcome(
    paired: Paired, coverage: float, rates: tuple[float, float], *, clustered: bool = False
) -> ComparisonOutcome:
    """Decide the outcome of a comparison.

    Args:
        rates: Pass rates of the baseline and of the candidate.
        clustered: True if the units of observation are clusters, so that the outcome's text counts clusters.
    """
    if coverage < LEAST_COVERAGE:
        return ComparisonOutcome("inconclusive", _coverage_text(coverage))
    rate_text = f"{percent(rates[0])} to {percent(rates[1])}"
    change = f"{rate_text} ({_difference_text(paired)}) over {pluralise(paired.tasks, 'item')}"
    if paired.significant:
        better = paired.difference > 0
        verdict: RunVerdict = "improved" if better else "regressed"
        return ComparisonOutcome(
            verdict, f"{verdict.capitalize()}: the pass rate {'rose' if better else 'fell'} from {change}."
        )
    units = "clusters" if clustered else "items"
    if paired.detectable is None:
        group_text = f"{units} ({len(paired.clusters)})" if len(paired.clusters) > 1 else "items"
        return ComparisonOutcome(
            "inconclusive", f"Inconclusive: too few {group_text} to tell a change from chance. Pass rate {change}."
        )
    if flip_count := _one_directional_changes(paired):
        return ComparisonOutcome(
            "inconclusive", f"Inconclusive: {_flip_text(paired, flip_count, units)}. Pass rate {change}."
        )
    detectable = f"a change of {format_points(paired.detectable)} would have been detected in 8 of 10 such comparisons"
    return ComparisonOutcome("no-detectable-change", f"No detectable change: pass rate {change}; {detectable}.")


def _difference_text(paired: Paired) -> str:
    low, high = (end * 100 for end in paired.interval)
    p_value_text = format_p_value(paired.test.p_value, exact=paired.test.exact)
    return f"{paired.difference * 100:+.1f} points, 95 %: {low:+.1f} to {high:+.1f}, {p_value_text}"


def _coverage_text(coverage: float) -> str:
    if not coverage:
        return "Inconclusive: no item has a verdict in both runs."
    requirement = f"at least {percent(LEAST_COVERAGE)} are needed"
    return f"Inconclusive: only {percent(coverage)} of the trials have a verdict in both runs, {requirement}."


def _one_directional_changes(paired: Paired) -> int | None:
    """Return the number of items or clusters that changed, if all of them changed in the same direction.

    Returns None if they changed in different directions, if none changed, or if so many changed that the change can be
    significant.
    """
    improved = sum(group.balanced > 0 for group in paired.clusters)
    worsened = sum(group.balanced < 0 for group in paired.clusters)
    change_count = improved + worsened
    return change_count if 0 in (improved, worsened) and change_count and 2.0 ** (1 - change_count) > ALPHA else None


def _flip_text(paired: Paired, flip_count: int, units: str) -> str:
    unit = units.removesuffix("s") if units == "items" else "cluster"
    direction = "better" if paired.difference > 0 else "worse"
    opposite = "worse" if direction == "better" else "better"
    noun = unit if flip_count == 1 else units
    return f"{flip_count:,} {noun} got {direction} and none {opposite}; fewer than 6 are never significant"


def comparison_warnings(
    base: ComparedRun,
    candidate: ComparedRun,
    keys: Sequence[str],
    outcome: ComparisonOutcome,
    scorers: Sequence[ScorerMovement],
) -> tuple[str, ...]:
    return (
        *_warn_broken(base, candidate, keys),
        *_warn_unfinished(base, candidate),
        *_warn_missing_verdicts(base, candidate, keys, outcome),
        *_warn_fallen_scores(outcome, scorers),
    )


def comparison_notes(
    base: ComparedRun, candidate: ComparedRun, shared: SharedItems, *, clustered: bool
) -> tuple[str, ...]:
    return tuple(_notes(base, candidate, shared, clustered))


def _warn_broken(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> Iterator[str]:
    """Warn about items that gave no answer, or could not be scored, only in the candidate."""
    # Errors are no evidence of a regression, so they do not affect the outcome.
    for verdict, problem in (("error", "gave no answer"), ("unscored", "could not be scored")):
        new_keys = [
            key for key in keys if _has_verdict(candidate, key, verdict) and not _has_verdict(base, key, verdict)
        ]
        if new_keys:
            key_text = join_first(new_keys, MOST_NAMED)
            yield f"Only in the candidate, {pluralise(len(new_keys), 'item')} {problem}: {key_text}."


def _has_verdict(side: ComparedRun, key: str, verdict: str) -> bool:
    return any(trial.verdict == verdict for trial in side.trials(key))


def _warn_unfinished(base: ComparedRun, candidate: ComparedRun) -> Iterator[str]:
    for role, side in (("base", base), ("candidate", candidate)):
        if side.run.state != "completed":
            reason = f" ({side.run.reason})" if side.run.reason else ""
            state_text = "was cancelled" if side.run.state == "cancelled" else side.run.state
            yield f"The {role} run {state_text}{reason}: trials that it did not run are not compared."


def _warn_missing_verdicts(
    base: ComparedRun, candidate: ComparedRun, keys: Sequence[str], outcome: ComparisonOutcome
) -> Iterator[str]:
    """Warn if counting trials without a verdict as failures would make the candidate a regression."""
    trial_pairs = [(base.trials(key), candidate.trials(key)) for key in keys]
    if outcome.verdict == "regressed" or not any(
        not trial.scored for sides in trial_pairs for side in sides for trial in side
    ):
        return
    tried_keys = [
        key
        for key, (base_trials, candidate_trials) in zip(keys, trial_pairs, strict=True)
        if base_trials and candidate_trials
    ]
    tasks = [Task(passes(base.trials(key)), passes(candidate.trials(key))) for key in tried_keys]
    paired = compare_pairs(tasks, clusters=observation_units(base, tried_keys))
    if paired.significant and paired.difference < 0:
        p_value_text = format_p_value(paired.test.p_value, exact=paired.test.exact)
        yield f"If trials without a verdict counted as failures, the candidate would be a regression ({p_value_text})."


def _warn_fallen_scores(outcome: ComparisonOutcome, scorers: Sequence[ScorerMovement]) -> Iterator[str]:
    """Warn about scorers whose scores fell significantly, unless the comparison is a regression anyway."""
    for scorer in scorers:
        if outcome.verdict != "regressed" and scorer.effect.significant and scorer.effect.difference < 0:
            p_value_text = format_p_value(scorer.effect.p, exact=scorer.effect.exact)
            correction = f", corrected for {pluralise(len(scorers), 'scorer')}" if len(scorers) > 1 else ""
            values = f"{scorer.base:.3g} to {scorer.candidate:.3g}"
            yield f"Scorer {scorer.name} fell from {values} ({p_value_text}{correction})."


def _notes(base: ComparedRun, candidate: ComparedRun, shared: SharedItems, clustered: bool) -> Iterator[str]:
    if shared.differences:
        left_out = len({*base.items, *candidate.items}) - len(shared.keys)
        scorer_names = ", ".join(binding.spec.name for binding in shared.bindings)
        yield (
            f"Only items that both runs share are compared: {pluralise(left_out, 'item')} left out; passing is judged "
            f"by {scorer_names}."
        )
    if base.run.repetitions != candidate.run.repetitions:
        yield (
            "The runs have different numbers of trials; the test uses the same number from both: the first "
            "trials of each item."
        )
    if clustered:
        yield "Items of one cluster count as one observation in the test and the interval."
    if base.run.deployment_id != candidate.run.deployment_id and not _has_clean_builds(base, candidate):
        yield "A build with uncommitted changes is not identified by its commit."


def _has_clean_builds(base: ComparedRun, candidate: ComparedRun) -> bool:
    return not any(side.build and "(dirty)" in side.build for side in (base, candidate))


class _ItemTest(NamedTuple):
    keys: tuple[str, ...]
    """Keys of the items that have a verdict on both sides."""
    paired: Paired
    coverage: float
    clustered: bool


def compare_experiment_runs(
    base: ComparedRun, candidate: ComparedRun, *, allow_mismatch: bool = False
) -> RunComparison:
    """Compare two runs that cover the same items with the same scorers.

    If items or scorers differ, the runs can be compared only if `allow_mismatch` is true. The comparison is then
    limited to the items and scorers that both runs share.
    """
    shared = find_shared(base, candidate)
    if shared.differences and not (allow_mismatch and shared.is_comparable):
        return _not_comparable(base, candidate, shared, allow_mismatch=allow_mismatch)
    if shared.differences:
        # A verdict that depends on scorers of one run only is no evidence about the other run.
        base, candidate = with_scorers(base, shared.bindings), with_scorers(candidate, shared.bindings)
    return _compare(base, candidate, shared)


def new_failures(base: Iterable[RunItem], candidate: Iterable[RunItem]) -> tuple[str, ...]:
    """Return the keys of items that passed every trial in the baseline but not every trial in the candidate.

    Keys are in the baseline's order. A trial of the candidate without a verdict counts as not passed. An item that the
    candidate never tried also counts as not passed.
    """
    passed = _all_passed(candidate)
    return tuple(key for key, all_passed in _all_passed(base).items() if all_passed and not passed.get(key, False))


def _all_passed(items: Iterable[RunItem]) -> dict[str, bool]:
    passed_by_key: dict[str, bool] = {}
    for item in items:
        passed_by_key[item.item_key] = passed_by_key.get(item.item_key, True) and item.verdict == "passed"
    return passed_by_key


def _not_comparable(
    base: ComparedRun, candidate: ComparedRun, shared: SharedItems, *, allow_mismatch: bool
) -> RunComparison:
    """Return a comparison that only lists the differences."""
    # Figures about different items or scorers would mislead.
    message = "Not comparable: " + "; ".join(shared.differences) + "."
    if allow_mismatch:
        message += " They share no items." if not shared.keys else " They share no required scorer."
    sides = [run_side(side, ()) for side in (base, candidate)]
    return RunComparison(
        base=sides[0], candidate=sides[1], verdict="not-comparable", summary=message, mismatches=shared.differences
    )


def _compare(base: ComparedRun, candidate: ComparedRun, shared: SharedItems) -> RunComparison:
    item_test = _test_items(base, candidate, shared.keys)
    sides = run_side(base, shared.keys), run_side(candidate, shared.keys)
    outcome = _outcome(item_test, base, candidate)
    scorers = scorer_movements(base, candidate, shared.keys, shared.bindings)
    changes = item_changes(base, candidate, item_test.keys)
    return RunComparison(
        base=sides[0],
        candidate=sides[1],
        verdict=outcome.verdict,
        summary=outcome.message,
        warnings=comparison_warnings(base, candidate, shared.keys, outcome, scorers),
        items=len(shared.keys),
        judged=len(item_test.keys),
        coverage=item_test.coverage,
        clusters=len(item_test.paired.clusters) if item_test.clustered else None,
        passes=mean_difference(item_test.paired) if item_test.keys else None,
        scorers=scorers,
        regressed=changes.regressed,
        fixed=changes.fixed,
        flaky=changes.flaky,
        several=pass_at_k_differences(base, candidate, item_test.keys),
        noise=_disagreement(base, candidate, item_test.keys) if _same_build(base, candidate) else None,
        mismatches=shared.differences,
        notes=comparison_notes(base, candidate, shared, clustered=item_test.clustered),
    )


def _test_items(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> _ItemTest:
    """Pair the trials of both sides."""
    # Trials without a verdict are left out, because an error is not a failure of the item.
    judged_keys = tuple(key for key in keys if base.scored(key) and candidate.scored(key))
    tasks = [Task(passes(base.scored(key)), passes(candidate.scored(key))) for key in judged_keys]
    clusters = observation_units(base, judged_keys)
    paired = compare_pairs(tasks, clusters=clusters)
    return _ItemTest(judged_keys, paired, _coverage(base, candidate, keys), len(paired.clusters) < len(judged_keys))


def _coverage(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> float:
    shares = [min(len(side.scored(key)) / side.run.repetitions for side in (base, candidate)) for key in keys]
    return sum(shares) / len(shares) if shares else 0.0


def _outcome(item_test: _ItemTest, base: ComparedRun, candidate: ComparedRun) -> ComparisonOutcome:
    base_rate, candidate_rate = (run_side(side, item_test.keys).rate_of_scored or 0.0 for side in (base, candidate))
    return decide_outcome(
        item_test.paired, item_test.coverage, (base_rate, candidate_rate), clustered=item_test.clustered
    )


def _same_build(base: ComparedRun, candidate: ComparedRun) -> bool:
    base_run, candidate_run = base.run, candidate.run
    return (base_run.experiment_version_id, base_run.deployment_id) == (
        candidate_run.experiment_version_id,
        candidate_run.deployment_id,
    )


def _disagreement(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> float | None:
    """Return the probability that two trials of one item, one from each side, have different outcomes."""
    rates = [(float(rate(base.scored(key))), float(rate(candidate.scored(key)))) for key in keys]
    flip_rates = [
        base_rate * (1 - candidate_rate) + candidate_rate * (1 - base_rate) for base_rate, candidate_rate in rates
    ]
    return sum(flip_rates) / len(flip_rates) if flip_rates else None


MOST_EXPLAINED = 50
"""Maximum number of changed items whose outputs and explanations are shown, for each kind of change."""
EXPLANATION_LENGTH = 160
OUTPUT_LENGTH = 120


def compare_runs(workspace: Workspace, base: str, candidate: str, *, allow_mismatch: bool = False) -> RunComparison:
    """Compare two runs, given by id or name. `base` can also be `previous`, for the candidate's previous run.

    Raises:
        UsageError: A run has not ended, or both names refer to the same run.
        NotFoundError: A run does not exist.
    """
    candidate_run = run_named(workspace, candidate)
    runs = [baseline_named(workspace, base, candidate_run), candidate_run]
    for run in runs:
        require_ended(run, "runs can be compared once they have ended")
    if runs[0].id == runs[1].id:
        raise UsageError(f"{base} and {candidate} are the same run, {runs[0].id}; name a different run")
    sides = [_compared_run(workspace, run) for run in runs]
    comparison = compare_experiment_runs(sides[0], sides[1], allow_mismatch=allow_mismatch)
    kinds = ("regressed", "fixed", "flaky")
    return comparison.model_copy(
        update={kind: tuple(_with_explanations(workspace, sides, getattr(comparison, kind), kind)) for kind in kinds}
    )


def _compared_run(workspace: Workspace, run: ExperimentRun) -> ComparedRun:
    deployment = workspace.store.experiments.deployment(run.deployment_id) if run.deployment_id else None
    return build_compared_run(
        run,
        version_of_run(workspace, run),
        experiment_of(workspace, run).name,
        f"{deployment.name or deployment.id}, {deployment.build}" if deployment else None,
        items=items_of(workspace, run),
        run_items=workspace.store.experiment_runs.items(run.id),
        scores=workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id)),
    )


def _with_explanations(
    workspace: Workspace, sides: Sequence[ComparedRun], changes: Sequence[ItemChange], kind: str
) -> Iterator[ItemChange]:
    for number, change in enumerate(changes):
        if number >= MOST_EXPLAINED:
            yield change
            continue
        base = _explained_side(workspace, sides[0], change, change.base, passed=kind == "regressed")
        candidate = _explained_side(workspace, sides[1], change, change.candidate, passed=kind == "fixed")
        yield change.model_copy(update={"base": base, "candidate": candidate})


def _explained_side(
    workspace: Workspace, side: ComparedRun, change: ItemChange, item_side: ItemSide, *, passed: bool
) -> ItemSide:
    """Add a trial's output and explanations to one side of a change.

    If `passed` is true, the first trial that passed is used; otherwise, the first trial that did not pass. If there
    is no such trial, the first trial is used.
    """
    trials = side.scored(change.item)
    shown = next((trial for trial in trials if (trial.verdict == "passed") == passed), trials[0])
    scores = tuple(workspace.store.experiment_runs.scores(ScoreQuery(run_id=side.run.id, run_item_id=shown.id)))
    stored = workspace.store.experiment_runs.attempt(shown.id)
    explanation = "; ".join(
        f"{score.scorer}: {score.explanation}" for score in _explaining_scores(scores, shown, change)
    )
    output = None if stored is None else short_value(stored.output, OUTPUT_LENGTH)
    return item_side.model_copy(
        update={"explanation": cut(one_line(explanation), EXPLANATION_LENGTH) or None, "output": output}
    )


def _explaining_scores(scores: Sequence[Score], trial: ScoredTrial, change: ItemChange) -> Sequence[Score]:
    """Return the scores that explain a trial's verdict: those of the required scorers that failed.

    If no required scorer failed, return the scores of the scorers that differ between the two sides.
    """
    failed = [score for score in scores if score.required and score.passed is False]
    return (
        failed
        if trial.verdict == "failed" and failed
        else [score for score in scores if score.scorer in change.scorers]
    )
