"""Two runs of experiments over the same items: what changed, and whether that is luck."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from evalscribe.evaluate.changes import changes
from evalscribe.evaluate.comparable import Shared, shared
from evalscribe.evaluate.movements import clusters_of, movements, several
from evalscribe.evaluate.outcome import Outcome, outcome
from evalscribe.evaluate.sided import Sided, figures, judged_by, passes, rate
from evalscribe.evaluate.warned import notes, warnings
from evalscribe.model.experiment import RunItem
from evalscribe.model.run_comparison import RunComparison
from evalscribe.statistics.paired import Paired, Task, difference, paired


class _Tested(NamedTuple):
    keys: tuple[str, ...]
    """Items with a verdict on both sides."""
    found: Paired
    coverage: float
    clustered: bool


def compared(base: Sided, candidate: Sided, *, allow_mismatch: bool = False) -> RunComparison:
    """Over the same dataset version and the same scorers only; with `allow_mismatch` over what both runs share."""
    both = shared(base, candidate)
    if both.differing and not (allow_mismatch and both.enough):
        return _not_comparable(base, candidate, both, allow_mismatch=allow_mismatch)
    if both.differing:
        base, candidate = judged_by(base, both.bindings), judged_by(candidate, both.bindings)
    return _compared(base, candidate, both)


def new_failures(base: Iterable[RunItem], candidate: Iterable[RunItem]) -> tuple[str, ...]:
    """Keys of the items that passed in every try of the base and not in every try of the candidate, as the base has
    them. An item that the candidate never tried, or of which it has no verdict, did not pass."""
    passed = _all_passed(candidate)
    return tuple(key for key, whole in _all_passed(base).items() if whole and not passed.get(key, False))


def _all_passed(items: Iterable[RunItem]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for item in items:
        found[item.item_key] = found.get(item.item_key, True) and item.verdict == "passed"
    return found


def _not_comparable(base: Sided, candidate: Sided, both: Shared, *, allow_mismatch: bool) -> RunComparison:
    """Nothing is computed: figures over different things are no evidence."""
    said = "Not comparable: " + "; ".join(both.differing) + "."
    if allow_mismatch:
        said += " They share no item." if not both.keys else " They share no scorer that an item has to pass."
    sides = [figures(side, ()) for side in (base, candidate)]
    return RunComparison(
        base=sides[0], candidate=sides[1], verdict="not-comparable", said=said, mismatches=both.differing
    )


def _compared(base: Sided, candidate: Sided, both: Shared) -> RunComparison:
    tested = _tested(base, candidate, both.keys)
    sides = figures(base, both.keys), figures(candidate, both.keys)
    found = _outcome(tested, base, candidate)
    scorers = movements(base, candidate, both.keys, both.bindings)
    changed = changes(base, candidate, tested.keys)
    return RunComparison(
        base=sides[0],
        candidate=sides[1],
        verdict=found.verdict,
        said=found.said,
        warnings=warnings(base, candidate, both.keys, found, scorers),
        items=len(both.keys),
        judged=len(tested.keys),
        coverage=tested.coverage,
        clusters=len(tested.found.clusters) if tested.clustered else None,
        passes=difference(tested.found) if tested.keys else None,
        scorers=scorers,
        regressed=changed.regressed,
        fixed=changed.fixed,
        flaky=changed.flaky,
        several=several(base, candidate, tested.keys),
        noise=_disagreement(base, candidate, tested.keys) if _same_build(base, candidate) else None,
        mismatches=both.differing,
        notes=notes(base, candidate, both, clustered=tested.clustered),
    )


def _tested(base: Sided, candidate: Sided, keys: Sequence[str]) -> _Tested:
    """Tries without a verdict are missing, on no side a failure."""
    judged = tuple(key for key in keys if base.scored(key) and candidate.scored(key))
    tasks = [Task(passes(base.scored(key)), passes(candidate.scored(key))) for key in judged]
    clusters = clusters_of(base, judged)
    found = paired(tasks, clusters=clusters)
    return _Tested(judged, found, _coverage(base, candidate, keys), len(found.clusters) < len(judged))


def _coverage(base: Sided, candidate: Sided, keys: Sequence[str]) -> float:
    shares = [min(len(side.scored(key)) / side.run.repetitions for side in (base, candidate)) for key in keys]
    return sum(shares) / len(shares) if shares else 0.0


def _outcome(tested: _Tested, base: Sided, candidate: Sided) -> Outcome:
    before, now = (figures(side, tested.keys).rate_of_scored or 0.0 for side in (base, candidate))
    return outcome(tested.found, tested.coverage, (before, now), clustered=tested.clustered)


def _same_build(base: Sided, candidate: Sided) -> bool:
    one, other = base.run, candidate.run
    return (one.experiment_version_id, one.deployment_id) == (other.experiment_version_id, other.deployment_id)


def _disagreement(base: Sided, candidate: Sided, keys: Sequence[str]) -> float | None:
    """How often a try of the one side and a try of the other at the same item end differently."""
    shares = [(float(rate(base.scored(key))), float(rate(candidate.scored(key)))) for key in keys]
    found = [before * (1 - now) + now * (1 - before) for before, now in shares]
    return sum(found) / len(found) if found else None
