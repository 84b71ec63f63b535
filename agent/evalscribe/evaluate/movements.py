"""How the scores of each scorer moved between two runs, and how often one or all of several tries pass."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from statistics import fmean
from typing import NamedTuple

from evalscribe.evaluate.sided import Sided
from evalscribe.model.run_comparison import PassAtKPair, ScoreKind, ScorerMovement
from evalscribe.model.score import Binding
from evalscribe.statistics.intervals import pass_at, pass_every
from evalscribe.statistics.paired import Paired, Task, difference, paired
from evalscribe.statistics.significance import holm

FINENESS = 10_000
"""Values are compared to so many parts of 1."""
BINARY = {Fraction(0), Fraction(1)}


class _Moved(NamedTuple):
    binding: Binding
    kind: ScoreKind
    tasks: Sequence[Task]
    found: Paired
    broken: tuple[int, int]


def movements(
    base: Sided, candidate: Sided, keys: Sequence[str], bindings: Sequence[Binding]
) -> tuple[ScorerMovement, ...]:
    """Of every scorer that has a score of some item on both sides, in their order."""
    moved = [one for binding in bindings if (one := _moved(base, candidate, keys, binding))]
    corrected = holm({one.binding.spec.name: one.found.test.p_value for one in moved})
    return tuple(_movement(one, corrected[one.binding.spec.name]) for one in moved)


def several(base: Sided, candidate: Sided, keys: Sequence[str]) -> tuple[PassAtKPair, ...]:
    """For every k up to the tries that both sides have; nothing for single ones."""
    most = min(base.run.repetitions, candidate.run.repetitions)
    return tuple(found for k in range(1, most + 1) if most > 1 and (found := _passes_of(base, candidate, keys, k)))


def clusters_of(base: Sided, keys: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """What is one observation: the items of a cluster, or an item."""
    own = ((key, base.items[key].cluster) for key in keys)
    return tuple(("item", key) if cluster is None else ("cluster", cluster) for key, cluster in own)


def _moved(base: Sided, candidate: Sided, keys: Sequence[str], binding: Binding) -> _Moved | None:
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
    found = paired(tasks, float(max(seen) - min(seen)) or 1.0, clusters_of(base, list(both)))
    return _Moved(binding, kind, tasks, found, (_broken(base, keys, name), _broken(candidate, keys, name)))


def _graded(side: Sided, name: str) -> bool:
    said = (one.scores.get(name) for own in side.tries.values() for one in own)
    return any(one and one.value is not None and one.value not in (0, 1) for one in said)


def _values(side: Sided, key: str, name: str, kind: ScoreKind) -> tuple[Fraction, ...]:
    found = [said for one in side.of(key) if (said := one.scores.get(name)) and said.status == "ok"]
    if kind == "passed":
        return tuple(Fraction(bool(said.passed)) for said in found)
    values = (float(bool(said.passed)) if said.value is None else said.value for said in found)
    return tuple(Fraction(round(value * FINENESS), FINENESS) for value in values)


def _broken(side: Sided, keys: Sequence[str], name: str) -> int:
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
        found=difference(moved.found, p),
        fell=sum(task.difference < 0 for task in moved.tasks),
        rose=sum(task.difference > 0 for task in moved.tasks),
        broken=moved.broken,
    )


def _passes_of(base: Sided, candidate: Sided, keys: Sequence[str], k: int) -> PassAtKPair | None:
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


def _counts(side: Sided, keys: Sequence[str]) -> Iterator[tuple[int, int]]:
    for key in keys:
        tries = side.scored(key)
        yield sum(one.verdict == "passed" for one in tries), len(tries)


def _mean(of: Callable[[int, int, int], float | None], counts: Sequence[tuple[int, int]], k: int) -> float:
    return fmean(found for passed, tries in counts if (found := of(passed, tries, k)) is not None)
