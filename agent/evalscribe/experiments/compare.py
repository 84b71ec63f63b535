"""Compare two runs: which items they share, what changed, and whether the difference is significant."""

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
    """Outcome of one scorer for a trial."""

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
    """Name of the experiment."""
    build: str | None
    items: Mapping[str, ItemContent]
    """Items of the dataset version that the run covers, by key, in order."""
    tries: Mapping[str, Sequence[ScoredTrial]]
    """Trials by item key, in order of repetition; items that were never tried are missing."""

    def of(self, key: str) -> Sequence[ScoredTrial]:
        return self.tries.get(key, ())

    def scored(self, key: str) -> tuple[ScoredTrial, ...]:
        return tuple(one for one in self.of(key) if one.scored)


def build_compared_run(
    run: ExperimentRun,
    version: ExperimentVersion,
    experiment: str,
    build: str | None,
    *,
    items: Iterable[Item],
    tried: Iterable[RunItem],
    scores: Iterable[Score],
) -> ComparedRun:
    """Reduce a run to what a comparison needs.

    Args:
        scores: Current scores. Their explanations are dropped.
    """
    said: dict[str, dict[str, ScorerOutcome]] = {}
    for score in scores:
        said.setdefault(score.run_item_id, {})[score.scorer] = ScorerOutcome(score.status, score.value, score.passed)
    tries: dict[str, list[ScoredTrial]] = {}
    for one in sorted(tried, key=lambda one: one.repetition):
        made = ScoredTrial(one.id, one.status == "ok", one.verdict, said.get(one.id, {}))
        tries.setdefault(one.item_key, []).append(made)
    contents = {item.key: ItemContent(item.digest, item.cluster) for item in items}
    return ComparedRun(run, version, experiment, build, contents, tries)


def with_scorers(side: ComparedRun, bindings: Sequence[Binding]) -> ComparedRun:
    """Return the run with its verdicts recomputed from the given scorers alone."""
    tries = {key: [one._replace(verdict=_verdict(one, bindings)) for one in own] for key, own in side.tries.items()}
    return ComparedRun(side.run, side.version, side.experiment, side.build, side.items, tries)


def run_side(side: ComparedRun, keys: Sequence[str]) -> RunSide:
    """Summarise one side of a comparison over the given items."""
    verdicts = [one.verdict for key in keys for one in side.of(key)]
    tries = len(keys) * side.run.repetitions
    return RunSide(
        run_id=side.run.id,
        name=side.run.name,
        experiment=side.experiment,
        experiment_version_id=side.version.id,
        dataset_version_id=side.run.dataset_version_id,
        build=side.build,
        state=side.run.state,
        repetitions=side.run.repetitions,
        tries=tries,
        passed=verdicts.count("passed"),
        failed=verdicts.count("failed"),
        errors=verdicts.count("error"),
        unscored=verdicts.count("unscored"),
        missing=max(0, tries - len(verdicts)),
        rate=verdicts.count("passed") / tries if tries else None,
        rate_of_scored=_mean_fraction([rate(own) for key in keys if (own := side.scored(key))]),
    )


def passes(tries: Iterable[ScoredTrial]) -> tuple[Fraction, ...]:
    """Return 1 for each trial that passed and 0 for each that did not."""
    return tuple(Fraction(one.verdict == "passed") for one in tries)


def rate(tries: Sequence[ScoredTrial]) -> Fraction:
    return sum(passes(tries), Fraction(0)) / len(tries)


def _mean_fraction(values: Sequence[Fraction]) -> float | None:
    return float(sum(values, Fraction(0)) / len(values)) if values else None


def _verdict(one: ScoredTrial, bindings: Sequence[Binding]) -> ItemVerdict:
    results = {
        name: ScoreResult(status=said.status, value=said.value, passed=said.passed, explanation="as stored")
        for name, said in one.scores.items()
    }
    return trial_verdict("ok" if one.answered else "error", results, bindings)


MOST_NAMED = 5


class SharedItems(NamedTuple):
    """Items and scorers that both runs share."""

    keys: tuple[str, ...]
    """Keys of items with the same content in both runs, in the baseline's order."""
    bindings: tuple[Binding, ...]
    """Scorers with the same version, threshold and required flag."""
    differing: tuple[str, ...]
    """One sentence for each difference; empty if the runs can be compared as they are."""

    @property
    def enough(self) -> bool:
        """True if the runs share at least one item and one required scorer."""
        return bool(self.keys) and any(binding.required for binding in self.bindings)


def find_shared(base: ComparedRun, candidate: ComparedRun) -> SharedItems:
    same_items = _over(base) == _over(candidate)
    keys = tuple(key for key, own in base.items.items() if same_items or _same(candidate.items.get(key), own))
    before, now = _by_name(base), _by_name(candidate)
    bindings = tuple(binding for name, binding in before.items() if name in now and not _differ(binding, now[name]))
    items = () if same_items else tuple(_items(base, candidate))
    return SharedItems(keys, bindings, (*items, *_scorer_mismatches(before, now)))


def _same(one: object, other: object) -> bool:
    return one is not None and one == other


def _over(side: ComparedRun) -> tuple[str, str | None]:
    return side.run.dataset_version_id, side.version.config.split


def _by_name(side: ComparedRun) -> Mapping[str, Binding]:
    return {binding.spec.name: binding for binding in side.version.bindings}


def _items(base: ComparedRun, candidate: ComparedRun) -> Iterator[str]:
    kinds = {
        "is only in the base": [key for key in base.items if key not in candidate.items],
        "is only in the candidate": [key for key in candidate.items if key not in base.items],
        "differs": [key for key, own in base.items.items() if key in candidate.items and candidate.items[key] != own],
    }
    if base.run.dataset_version_id != candidate.run.dataset_version_id:
        ids = f"{base.run.dataset_version_id} and {candidate.run.dataset_version_id}"
        yield f"the runs use different dataset versions, {ids}"
    if base.version.config.split != candidate.version.config.split:
        yield f"the base covered {base.version.config.tried} and the candidate covered {candidate.version.config.tried}"
    for what, keys in kinds.items():
        if keys:
            are = what.replace("is ", "are ").replace("differs", "differ") if len(keys) > 1 else what
            yield f"{pluralise(len(keys), 'item')} {are}: {join_first(keys, MOST_NAMED)}"


def _scorer_mismatches(before: Mapping[str, Binding], now: Mapping[str, Binding]) -> Iterator[str]:
    for name in {**before, **now}:
        if name not in now:
            yield f"scorer {name} is only in the base"
        elif name not in before:
            yield f"scorer {name} is only in the candidate"
        elif told := _differ(before[name], now[name]):
            yield f"scorer {name} differs: {told}"


def _differ(before: Binding, now: Binding) -> str | None:
    """Describe how a scorer differs between baseline and candidate; None if it does not."""
    if before.spec.id != now.spec.id:
        return f"version {before.spec.id} and {now.spec.id}"
    if before.required != now.required:
        return f"required in the {'base' if before.required else 'candidate'} only"
    if before.threshold != now.threshold:
        return f"threshold {_number(before.threshold)} and {_number(now.threshold)}"
    return None


def _number(threshold: float | None) -> str:
    return "none" if threshold is None else f"{threshold:g}"


Kind = Literal["regressed", "fixed", "flaky"]


class ItemChanges(NamedTuple):
    regressed: tuple[ItemChange, ...]
    fixed: tuple[ItemChange, ...]
    flaky: tuple[ItemChange, ...]


def item_changes(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> ItemChanges:
    """Classify the change of every item that has a verdict in both runs."""
    found: dict[Kind, list[ItemChange]] = {"regressed": [], "fixed": [], "flaky": []}
    for key in keys:
        before, now = base.scored(key), candidate.scored(key)
        if kind := item_change(_passed(before), len(before), _passed(now), len(now)):
            own = ItemChange(item=key, base=_side(before), candidate=_side(now), scorers=tuple(_scorers(before, now)))
            found[kind].append(own)
    return ItemChanges(*(tuple(found[kind]) for kind in ("regressed", "fixed", "flaky")))


def item_change(before: int, of_base: int, now: int, of_candidate: int) -> Kind | None:
    """Classify a change by the number of trials that passed on each side; None if nothing changed.

    An item that passed every trial and now passes none has regressed; the reverse is fixed. If only some trials of a
    side pass, the item is flaky, unless Fisher's exact test shows that the sides differ.
    """
    steady = before in (0, of_base) and now in (0, of_candidate)
    better = now * of_base > before * of_candidate
    if steady and bool(before) == bool(now):
        return None
    if steady or fisher_exact_test((before, now), (of_base, of_candidate)) <= ALPHA:
        return "fixed" if better else "regressed"
    return "flaky"


def _passed(tries: Sequence[ScoredTrial]) -> int:
    return sum(one.verdict == "passed" for one in tries)


def _side(tries: Sequence[ScoredTrial]) -> ItemSide:
    return ItemSide(passed=_passed(tries), scored=len(tries))


def _scorers(before: Sequence[ScoredTrial], now: Sequence[ScoredTrial]) -> Iterator[str]:
    """Return the scorers whose pass rate differs."""
    for name in before[0].scores:
        shares = [
            [said.passed for one in side if (said := one.scores.get(name)) and said.status == "ok"]
            for side in (before, now)
        ]
        if all(shares) and shares[0].count(True) * len(shares[1]) != shares[1].count(True) * len(shares[0]):
            yield name


FINENESS = 10_000
"""Number of steps from 0 to 1 to which scores are rounded in comparisons."""


class _Moved(NamedTuple):
    binding: Binding
    kind: ScoreKind
    tasks: Sequence[Task]
    found: Paired
    broken: tuple[int, int]


def scorer_movements(
    base: ComparedRun, candidate: ComparedRun, keys: Sequence[str], bindings: Sequence[Binding]
) -> tuple[ScorerMovement, ...]:
    """Compare the scores of each scorer that scored at least one item on both sides."""
    moved = [one for binding in bindings if (one := _moved(base, candidate, keys, binding))]
    corrected = holm({one.binding.spec.name: one.found.test.p_value for one in moved})
    return tuple(_movement(one, corrected[one.binding.spec.name]) for one in moved)


def pass_at_k_differences(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> tuple[PassAtKPair, ...]:
    """Compare pass@k for every k up to the trials that both sides have; empty for single trials."""
    most = min(base.run.repetitions, candidate.run.repetitions)
    return tuple(found for k in range(1, most + 1) if most > 1 and (found := _passes_of(base, candidate, keys, k)))


def observation_units(base: ComparedRun, keys: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the unit of observation of each item: its cluster, or the item itself."""
    own = ((key, base.items[key].cluster) for key in keys)
    return tuple(("item", key) if cluster is None else ("cluster", cluster) for key, cluster in own)


def _moved(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str], binding: Binding) -> _Moved | None:
    name = binding.spec.name
    kind: ScoreKind = "graded" if any(_graded(side, name) for side in (base, candidate)) else "passed"
    both = {
        key: Task(before, now)
        for key in keys
        if (before := _values(base, key, name, kind)) and (now := _values(candidate, key, name, kind))
    }
    if not both:
        return None
    tasks = list(both.values())
    seen = [value for task in tasks for side in task for value in side]
    found = compare_pairs(tasks, float(max(seen) - min(seen)) or 1.0, observation_units(base, list(both)))
    return _Moved(binding, kind, tasks, found, (_count_broken(base, keys, name), _count_broken(candidate, keys, name)))


def _graded(side: ComparedRun, name: str) -> bool:
    said = (one.scores.get(name) for own in side.tries.values() for one in own)
    return any(one and one.value is not None and one.value not in (0, 1) for one in said)


def _values(side: ComparedRun, key: str, name: str, kind: ScoreKind) -> tuple[Fraction, ...]:
    found = [said for one in side.of(key) if (said := one.scores.get(name)) and said.status == "ok"]
    if kind == "passed":
        return tuple(Fraction(bool(said.passed)) for said in found)
    values = (float(bool(said.passed)) if said.value is None else said.value for said in found)
    return tuple(Fraction(round(value * FINENESS), FINENESS) for value in values)


def _count_broken(side: ComparedRun, keys: Sequence[str], name: str) -> int:
    said = (one.scores.get(name) for key in keys for one in side.of(key))
    return sum(one is not None and one.status != "ok" for one in said)


def _movement(moved: _Moved, p: float) -> ScorerMovement:
    base, candidate = (fmean(float(fmean(side)) for side in sides) for sides in zip(*moved.tasks, strict=True))
    return ScorerMovement(
        name=moved.binding.spec.name,
        required=moved.binding.required,
        kind=moved.kind,
        base=base,
        candidate=candidate,
        found=mean_difference(moved.found, p),
        fell=sum(task.difference < 0 for task in moved.tasks),
        rose=sum(task.difference > 0 for task in moved.tasks),
        broken=moved.broken,
    )


def _passes_of(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str], k: int) -> PassAtKPair | None:
    own = [key for key in keys if min(len(base.scored(key)), len(candidate.scored(key))) >= k]
    if not own:
        return None
    of_base, of_candidate = (list(_counts(side, own)) for side in (base, candidate))
    return PassAtKPair(
        k=k,
        items=len(own),
        any=(_mean(pass_at, of_base, k), _mean(pass_at, of_candidate, k)),
        every=(_mean(pass_every, of_base, k), _mean(pass_every, of_candidate, k)),
    )


def _counts(side: ComparedRun, keys: Sequence[str]) -> Iterator[tuple[int, int]]:
    for key in keys:
        tries = side.scored(key)
        yield sum(one.verdict == "passed" for one in tries), len(tries)


def _mean(of: Callable[[int, int, int], float | None], counts: Sequence[tuple[int, int]], k: int) -> float:
    return fmean(found for passed, tries in counts if (found := of(passed, tries, k)) is not None)


LEAST_COVERAGE = 0.8
"""Minimum share of trials with a verdict. With a smaller share, the comparison is inconclusive."""


class ComparisonOutcome(NamedTuple):
    verdict: RunVerdict
    said: str


def decide_outcome(
    found: Paired, coverage: float, rates: tuple[float, float], *, clustered: bool = False
) -> ComparisonOutcome:
    """Decide the outcome of a comparison.

    Args:
        rates: Pass rates of the baseline and of the candidate.
    """
    if coverage < LEAST_COVERAGE:
        return ComparisonOutcome("inconclusive", _uncovered(coverage))
    moved = f"{percent(rates[0])} to {percent(rates[1])} ({_difference(found)}) over {pluralise(found.tasks, 'item')}"
    if found.significant:
        better = found.difference > 0
        verdict: RunVerdict = "improved" if better else "regressed"
        return ComparisonOutcome(
            verdict, f"{verdict.capitalize()}: the pass rate {'rose' if better else 'fell'} from {moved}."
        )
    units = "clusters" if clustered else "items"
    if found.detectable is None:
        few = f"{units} ({len(found.clusters)})" if len(found.clusters) > 1 else "items"
        return ComparisonOutcome(
            "inconclusive", f"Inconclusive: too few {few} to tell a change from chance. Pass rate {moved}."
        )
    if flips := _one_way(found):
        return ComparisonOutcome("inconclusive", f"Inconclusive: {_flipped(found, flips, units)}. Pass rate {moved}.")
    seen = f"a change of {format_points(found.detectable)} would have been detected in 8 of 10 such comparisons"
    return ComparisonOutcome("no-detectable-change", f"No detectable change: pass rate {moved}; {seen}.")


def _difference(found: Paired) -> str:
    low, high = (end * 100 for end in found.interval)
    chance = format_p_value(found.test.p_value, exact=found.test.exact)
    return f"{found.difference * 100:+.1f} points, 95 %: {low:+.1f} to {high:+.1f}, {chance}"


def _uncovered(coverage: float) -> str:
    if not coverage:
        return "Inconclusive: no item has a verdict in both runs."
    needed = f"at least {percent(LEAST_COVERAGE)} are needed"
    return f"Inconclusive: only {percent(coverage)} of the trials have a verdict in both runs, {needed}."


def _one_way(found: Paired) -> int | None:
    """Return how many items or clusters changed if all changed in one direction, too few to be significant; or None."""
    ups = sum(group.balanced > 0 for group in found.clusters)
    downs = sum(group.balanced < 0 for group in found.clusters)
    moved = ups + downs
    return moved if 0 in (ups, downs) and moved and 2.0 ** (1 - moved) > ALPHA else None


def _flipped(found: Paired, flips: int, units: str) -> str:
    one = units.removesuffix("s") if units == "items" else "cluster"
    way = "better" if found.difference > 0 else "worse"
    other = "worse" if way == "better" else "better"
    return f"{flips:,} {one if flips == 1 else units} got {way} and none {other}; fewer than 6 are never significant"


def comparison_warnings(
    base: ComparedRun,
    candidate: ComparedRun,
    keys: Sequence[str],
    found: ComparisonOutcome,
    scorers: Sequence[ScorerMovement],
) -> tuple[str, ...]:
    return (
        *_warn_broken(base, candidate, keys),
        *_ended(base, candidate),
        *_worst(base, candidate, keys, found),
        *_fell(found, scorers),
    )


def comparison_notes(
    base: ComparedRun, candidate: ComparedRun, both: SharedItems, *, clustered: bool
) -> tuple[str, ...]:
    return tuple(_notes(base, candidate, both, clustered))


def _warn_broken(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> Iterator[str]:
    """Warn about new errors: they are not evidence of a regression, but must not be hidden."""
    for why, what in (("error", "gave no answer"), ("unscored", "could not be scored")):
        new = [key for key in keys if _has(candidate, key, why) and not _has(base, key, why)]
        if new:
            named = join_first(new, MOST_NAMED)
            yield f"Only in the candidate, {pluralise(len(new), 'item')} {what}: {named}."


def _has(side: ComparedRun, key: str, verdict: str) -> bool:
    return any(one.verdict == verdict for one in side.of(key))


def _ended(base: ComparedRun, candidate: ComparedRun) -> Iterator[str]:
    for what, side in (("base", base), ("candidate", candidate)):
        if side.run.state != "completed":
            reason = f" ({side.run.reason})" if side.run.reason else ""
            how = "was cancelled" if side.run.state == "cancelled" else side.run.state
            yield f"The {what} run {how}{reason}: trials that it did not run are not compared."


def _worst(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str], found: ComparisonOutcome) -> Iterator[str]:
    """Warn if the candidate would be a regression if trials without a verdict counted as failures."""
    tries = [(base.of(key), candidate.of(key)) for key in keys]
    if found.verdict == "regressed" or not any(not one.scored for sides in tries for side in sides for one in side):
        return
    both = [key for key, (before, now) in zip(keys, tries, strict=True) if before and now]
    tasks = [Task(passes(base.of(key)), passes(candidate.of(key))) for key in both]
    whole = compare_pairs(tasks, clusters=observation_units(base, both))
    if whole.significant and whole.difference < 0:
        chance = format_p_value(whole.test.p_value, exact=whole.test.exact)
        yield f"If trials without a verdict counted as failures, the candidate would be a regression ({chance})."


def _fell(found: ComparisonOutcome, scorers: Sequence[ScorerMovement]) -> Iterator[str]:
    """Warn about scorers whose scores fell significantly although the pass rate did not."""
    for one in scorers:
        if found.verdict != "regressed" and one.found.significant and one.found.difference < 0:
            chance = format_p_value(one.found.p, exact=one.found.exact)
            several = f", corrected for {pluralise(len(scorers), 'scorer')}" if len(scorers) > 1 else ""
            yield f"Scorer {one.name} fell from {one.base:.3g} to {one.candidate:.3g} ({chance}{several})."


def _notes(base: ComparedRun, candidate: ComparedRun, both: SharedItems, clustered: bool) -> Iterator[str]:
    if both.differing:
        left = len({*base.items, *candidate.items}) - len(both.keys)
        by = ", ".join(binding.spec.name for binding in both.bindings)
        yield (
            f"Only items that both runs share are compared: {pluralise(left, 'item')} left out; passing is judged by "
            f"{by}."
        )
    if base.run.repetitions != candidate.run.repetitions:
        yield (
            "The runs have different numbers of trials; the test uses the same number from both: the first "
            "trials of each item."
        )
    if clustered:
        yield "Items of one cluster count as one observation in the test and the interval."
    if base.run.deployment_id != candidate.run.deployment_id and not _clean(base, candidate):
        yield "A build with uncommitted changes is not identified by its commit."


def _clean(base: ComparedRun, candidate: ComparedRun) -> bool:
    return not any(side.build and "(dirty)" in side.build for side in (base, candidate))


class _Tested(NamedTuple):
    keys: tuple[str, ...]
    """Items with a verdict on both sides."""
    found: Paired
    coverage: float
    clustered: bool


def compare_experiment_runs(
    base: ComparedRun, candidate: ComparedRun, *, allow_mismatch: bool = False
) -> RunComparison:
    """Compare two runs over the same dataset version and scorers.

    With `allow_mismatch`, compare what both runs share.
    """
    both = find_shared(base, candidate)
    if both.differing and not (allow_mismatch and both.enough):
        return _not_comparable(base, candidate, both, allow_mismatch=allow_mismatch)
    if both.differing:
        base, candidate = with_scorers(base, both.bindings), with_scorers(candidate, both.bindings)
    return _compared(base, candidate, both)


def new_failures(base: Iterable[RunItem], candidate: Iterable[RunItem]) -> tuple[str, ...]:
    """Return the keys of items that passed every trial of the baseline but not of the candidate.

    Keys are in the baseline's order. An item that the candidate never tried, or that has no verdict there, counts as
    not passed.
    """
    passed = _all_passed(candidate)
    return tuple(key for key, whole in _all_passed(base).items() if whole and not passed.get(key, False))


def _all_passed(items: Iterable[RunItem]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for item in items:
        found[item.item_key] = found.get(item.item_key, True) and item.verdict == "passed"
    return found


def _not_comparable(
    base: ComparedRun, candidate: ComparedRun, both: SharedItems, *, allow_mismatch: bool
) -> RunComparison:
    """Return a comparison that lists the differences and no figures, which would mislead."""
    said = "Not comparable: " + "; ".join(both.differing) + "."
    if allow_mismatch:
        said += " They share no items." if not both.keys else " They share no required scorer."
    sides = [run_side(side, ()) for side in (base, candidate)]
    return RunComparison(
        base=sides[0], candidate=sides[1], verdict="not-comparable", said=said, mismatches=both.differing
    )


def _compared(base: ComparedRun, candidate: ComparedRun, both: SharedItems) -> RunComparison:
    tested = _tested(base, candidate, both.keys)
    sides = run_side(base, both.keys), run_side(candidate, both.keys)
    found = _outcome(tested, base, candidate)
    scorers = scorer_movements(base, candidate, both.keys, both.bindings)
    changed = item_changes(base, candidate, tested.keys)
    return RunComparison(
        base=sides[0],
        candidate=sides[1],
        verdict=found.verdict,
        said=found.said,
        warnings=comparison_warnings(base, candidate, both.keys, found, scorers),
        items=len(both.keys),
        judged=len(tested.keys),
        coverage=tested.coverage,
        clusters=len(tested.found.clusters) if tested.clustered else None,
        passes=mean_difference(tested.found) if tested.keys else None,
        scorers=scorers,
        regressed=changed.regressed,
        fixed=changed.fixed,
        flaky=changed.flaky,
        several=pass_at_k_differences(base, candidate, tested.keys),
        noise=_disagreement(base, candidate, tested.keys) if _same_build(base, candidate) else None,
        mismatches=both.differing,
        notes=comparison_notes(base, candidate, both, clustered=tested.clustered),
    )


def _tested(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> _Tested:
    """Pair the trials of both sides. Trials without a verdict are missing, not failed."""
    judged = tuple(key for key in keys if base.scored(key) and candidate.scored(key))
    tasks = [Task(passes(base.scored(key)), passes(candidate.scored(key))) for key in judged]
    clusters = observation_units(base, judged)
    found = compare_pairs(tasks, clusters=clusters)
    return _Tested(judged, found, _coverage(base, candidate, keys), len(found.clusters) < len(judged))


def _coverage(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> float:
    shares = [min(len(side.scored(key)) / side.run.repetitions for side in (base, candidate)) for key in keys]
    return sum(shares) / len(shares) if shares else 0.0


def _outcome(tested: _Tested, base: ComparedRun, candidate: ComparedRun) -> ComparisonOutcome:
    before, now = (run_side(side, tested.keys).rate_of_scored or 0.0 for side in (base, candidate))
    return decide_outcome(tested.found, tested.coverage, (before, now), clustered=tested.clustered)


def _same_build(base: ComparedRun, candidate: ComparedRun) -> bool:
    one, other = base.run, candidate.run
    return (one.experiment_version_id, one.deployment_id) == (other.experiment_version_id, other.deployment_id)


def _disagreement(base: ComparedRun, candidate: ComparedRun, keys: Sequence[str]) -> float | None:
    """Return the probability that a base trial and a candidate trial of the same item have different outcomes."""
    shares = [(float(rate(base.scored(key))), float(rate(candidate.scored(key)))) for key in keys]
    found = [before * (1 - now) + now * (1 - before) for before, now in shares]
    return sum(found) / len(found) if found else None


MOST_EXPLAINED = 50
"""Maximum number of changed items, per kind of change, for which the scorers' explanations are shown."""
SAID_LENGTH = 160
OUTPUT_LENGTH = 120


def compare_runs(workspace: Workspace, base: str, candidate: str, *, allow_mismatch: bool = False) -> RunComparison:
    """Compare two runs by id or name; `base` may be `previous`.

    Raises:
        UsageError: A run has not ended, or both are the same run.
        NotFoundError: A run does not exist.
    """
    later = run_named(workspace, candidate)
    runs = [baseline_named(workspace, base, later), later]
    for run in runs:
        require_ended(run, "runs can be compared once they have ended")
    if runs[0].id == runs[1].id:
        raise UsageError(f"{base} and {candidate} are the same run, {runs[0].id}; name a different run")
    sides = [_compared_run(workspace, run) for run in runs]
    found = compare_experiment_runs(sides[0], sides[1], allow_mismatch=allow_mismatch)
    kinds = ("regressed", "fixed", "flaky")
    return found.model_copy(
        update={kind: tuple(_explained(workspace, sides, getattr(found, kind), kind)) for kind in kinds}
    )


def _compared_run(workspace: Workspace, run: ExperimentRun) -> ComparedRun:
    deployment = workspace.store.experiments.deployment(run.deployment_id) if run.deployment_id else None
    return build_compared_run(
        run,
        version_of_run(workspace, run),
        experiment_of(workspace, run).name,
        f"{deployment.name or deployment.id}, {deployment.build}" if deployment else None,
        items=items_of(workspace, run),
        tried=workspace.store.experiment_runs.items(run.id),
        scores=workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id)),
    )


def _explained(
    workspace: Workspace, sides: Sequence[ComparedRun], changed: Sequence[ItemChange], kind: str
) -> Iterator[ItemChange]:
    for number, one in enumerate(changed):
        if number >= MOST_EXPLAINED:
            yield one
            continue
        base = _told(workspace, sides[0], one, one.base, passed=kind == "regressed")
        candidate = _told(workspace, sides[1], one, one.candidate, passed=kind == "fixed")
        yield one.model_copy(update={"base": base, "candidate": candidate})


def _told(workspace: Workspace, side: ComparedRun, change: ItemChange, own: ItemSide, *, passed: bool) -> ItemSide:
    """Add output and explanations of the first trial that passed (not `passed`: did not), else of the first trial."""
    tries = side.scored(change.item)
    seen = next((one for one in tries if (one.verdict == "passed") == passed), tries[0])
    scores = tuple(workspace.store.experiment_runs.scores(ScoreQuery(run_id=side.run.id, run_item_id=seen.id)))
    attempt = workspace.store.experiment_runs.attempt(seen.id)
    said = "; ".join(f"{score.scorer}: {score.explanation}" for score in _telling(scores, seen, change))
    output = None if attempt is None else short_value(attempt.output, OUTPUT_LENGTH)
    return own.model_copy(update={"said": cut(one_line(said), SAID_LENGTH) or None, "output": output})


def _telling(scores: Sequence[Score], seen: ScoredTrial, change: ItemChange) -> Sequence[Score]:
    """Return the required scorers that failed the trial, else the scorers that differ between the sides."""
    failed = [score for score in scores if score.required and score.passed is False]
    return failed if seen.verdict == "failed" and failed else [one for one in scores if one.scorer in change.scorers]
