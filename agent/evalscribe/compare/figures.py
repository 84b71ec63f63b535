"""The figures of a comparison. A task is one unit, however often it was tried."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from statistics import fmean

from evalscribe.model.comparison import CategoryFlips, EvalPair, MeanDifference, ScoreDifference, Trial
from evalscribe.statistics.paired import Paired, Task, difference, paired
from evalscribe.statistics.significance import holm, stratified_permutation_test

FINENESS = 10_000
"""Scores are compared to so many parts of 1."""
LARGEST = 1e100
"""What is further from 0 is no score: no float can hold the squares of such differences."""


def passes(pairs: Sequence[EvalPair], unnamed: int = 0) -> MeanDifference:
    """Of the pass rates; `unnamed`: evals that both sides passed."""
    one = (Fraction(1),)
    return difference(paired([*map(_task, pairs), *[Task(one, one)] * unnamed]))


def by_eval(pairs: Sequence[EvalPair]) -> float | None:
    """How often sides equally good at each eval differ as much in single ones; None where trials cannot tell."""
    found = stratified_permutation_test(list(map(_task, pairs)))
    return found and found.p_value


def scores(pairs: Sequence[EvalPair]) -> tuple[ScoreDifference, ...]:
    """Of every score that takes more values than 0 and 1, over the evals where both sides have it."""
    found = {}
    for name in sorted({name for pair in pairs for trial in pair.base for name in trial.scores}):
        tasks = [task for pair in pairs if (task := _scored(pair, name))]
        values = {value for task in tasks for side in task for value in side}
        if values - {0, 1}:
            found[name] = tasks, paired(tasks, float(max(values) - min(values)) or 1.0)
    corrected = holm({name: result.test.p_value for name, (_, result) in found.items()})
    return tuple(_score(name, tasks, result, corrected[name]) for name, (tasks, result) in found.items())


def categories(pairs: Sequence[EvalPair], *, all_named: bool = True) -> tuple[CategoryFlips, ...]:
    """By name; none where there is only one."""
    groups: dict[str, list[EvalPair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.category].append(pair)
    if len(groups) < 2:
        return ()
    corrected = holm({name: paired(list(map(_task, group))).test.p_value for name, group in groups.items()})
    return tuple(_category(name, group, corrected[name], all_named) for name, group in sorted(groups.items()))


def rate(tried: Iterable[Sequence[Trial]], unnamed: int = 0) -> float:
    """Mean of the evals' pass rates; `unnamed` ones passed."""
    return fmean([*(sum(trial.passed for trial in trials) / len(trials) for trials in tried), *[1.0] * unnamed])


def _task(pair: EvalPair) -> Task:
    base, candidate = (tuple(Fraction(trial.passed) for trial in side) for side in (pair.base, pair.candidate))
    return Task(base, candidate)


def _scored(pair: EvalPair, name: str) -> Task | None:
    base, candidate = (_values(side, name) for side in (pair.base, pair.candidate))
    return Task(base, candidate) if base and candidate else None


def _values(side: tuple[Trial, ...], name: str) -> tuple[Fraction, ...]:
    values = (trial.scores[name] for trial in side if name in trial.scores)
    return tuple(Fraction(round(value * FINENESS), FINENESS) for value in values if abs(value) <= LARGEST)


def _score(name: str, tasks: Sequence[Task], found: Paired, p: float) -> ScoreDifference:
    base, candidate = (fmean(float(fmean(side)) for side in sides) for sides in zip(*tasks, strict=True))
    return ScoreDifference(name=name, base=base, candidate=candidate, found=difference(found, p))


def _category(name: str, group: Sequence[EvalPair], p: float, all_named: bool) -> CategoryFlips:
    changes = [pair.change for pair in group]
    return CategoryFlips(
        category=name,
        evals=len(group),
        base=rate(pair.base for pair in group) if all_named else None,
        candidate=rate(pair.candidate for pair in group) if all_named else None,
        regressed=changes.count("regressed"),
        fixed=changes.count("fixed"),
        p=p,
    )
