"""Measure the errors of comparing two runs: false alarms, coverage, and the share of planted effects that are found.

    python tests/benchmarks/experiment_statistics.py [PAIRS]

Complete runs are compared in the same way as by the command. In A/A pairs, both sides are equally good at each item. At
most 0.05 of these pairs should be called "regressed" or "improved", and at most 0.05 should show a difference in any
score. Then effects are planted that the comparison itself calls detectable. At least 0.8 of them should be found.
Prints shares.
"""

import random
import sys
from collections.abc import Iterator
from itertools import product
from statistics import median
from typing import NamedTuple

from evalscribe.experiments.compare import ComparedRun, ItemContent, ScoredTrial, ScorerOutcome, compare_experiment_runs
from evalscribe.model.comparison import RunComparison
from evalscribe.model.experiment import ComponentTarget, ExperimentConfig, ExperimentRun, ExperimentVersion, ItemVerdict
from evalscribe.model.score import Binding, ScorerSpec
from evalscribe.model.target import Component

NOW = "2026-11-21T12:00:00Z"
TARGET = ComponentTarget(deployment_id="d", component=Component(name="agent", kind="python", address="agent:answer"))


class Setting(NamedTuple):
    items: int
    repetitions: int
    cluster: int
    """Number of items per cluster; 1 for no clusters."""
    scorers: int
    """Number of scorers. If there are several, the last one gives graded scores."""
    rate: float
    """Mean probability that a trial passes, over all items."""

    def __str__(self) -> str:
        sizes = f"{self.items:>4} items x {self.repetitions}, clusters of {self.cluster}"
        return f"{sizes}, {self.scorers} scorers, rate {self.rate}"


class Rates(NamedTuple):
    alarms: float
    """Share of comparisons that are called "regressed" or "improved"."""
    scorers: float
    """Share of comparisons in which a scorer is said to differ."""
    covered: float
    """Share of comparisons whose interval contains the true difference."""
    detectable: float
    """Median of the detectable differences; 1 if no difference is detectable."""
    coverage: float
    """Share of the trials that were judged."""


SETTINGS = tuple(
    Setting(items, repetitions, cluster, scorers, rate)
    for items, repetitions, cluster, scorers, rate in product((20, 60), (1, 4), (1, 5), (1, 3), (0.5, 0.9))
)


def pairs(setting: Setting, drop: float, number: int, broken: float = 0.0) -> Iterator[RunComparison]:
    """Yield comparisons of generated runs.

    `drop` is the decrease of the candidate's probability to pass each item. `broken` is the share of trials without a
    verdict.
    """
    draw = random.Random(f"{setting} {drop} {broken}")
    version = _version(setting)
    for _ in range(number):
        chances = _chances(draw, setting, drop)
        sides = [
            _side(draw, setting, version, f"run{n}", [chance - n * drop for chance in chances], broken) for n in (0, 1)
        ]
        yield compare_experiment_runs(*sides)


def rates(setting: Setting, drop: float, number: int, broken: float = 0.0) -> Rates:
    found = list(pairs(setting, drop, number, broken))
    told = [one.passes for one in found if one.passes]
    covered = sum(one.low - 1e-9 <= -drop <= one.high + 1e-9 for one in told)
    return Rates(
        alarms=sum(one.verdict in ("regressed", "improved") for one in found) / number,
        scorers=sum(any(scorer.effect.significant for scorer in one.scorers) for one in found) / number,
        covered=covered / len(told),
        detectable=median(one.detectable or 1.0 for one in told),
        coverage=sum(one.coverage for one in found) / number,
    )


def power(setting: Setting, number: int) -> tuple[float, float] | None:
    """Return the drop that comparisons of equal sides call detectable, and how often a drop of this size is found.

    Returns None if there are too few items to detect a difference.
    """
    drop = rates(setting, 0.0, 41).detectable
    if drop >= setting.rate:
        return None
    return drop, sum(one.verdict == "regressed" for one in pairs(setting, drop, number)) / number


def _chances(draw: random.Random, setting: Setting, drop: float) -> list[float]:
    """Draw the base's probability to pass each item. Items of a cluster have the same probability."""
    most = 2.0
    shape = (most * setting.rate, most * (1 - setting.rate))
    clusters = [draw.betavariate(*shape) for _ in range(setting.items // setting.cluster)]
    return [drop + (1 - drop) * chance for chance in clusters for _ in range(setting.cluster)]


def _side(
    draw: random.Random, setting: Setting, version: ExperimentVersion, id: str, chances: list[float], broken: float
) -> ComparedRun:
    run = ExperimentRun(
        id=id,
        experiment_id="e",
        experiment_version_id="v",
        dataset_version_id="dsv",
        deployment_id=id,
        state="completed",
        repetitions=setting.repetitions,
        items=setting.items,
        created_at=NOW,
    )
    cluster = (lambda n: str(n // setting.cluster)) if setting.cluster > 1 else (lambda _: None)
    items = {str(n): ItemContent("same", cluster(n)) for n in range(setting.items)}
    tries = {
        str(n): [_try(draw, chance, setting.scorers, broken) for _ in range(setting.repetitions)]
        for n, chance in enumerate(chances)
    }
    return ComparedRun(run, version, "benchmark", None, items, tries)


def _try(draw: random.Random, chance: float, scorers: int, broken: float) -> ScoredTrial:
    passed = draw.random() < chance
    verdict: ItemVerdict = "error" if broken and draw.random() < broken else "passed" if passed else "failed"
    said = {"s0": ScorerOutcome("ok", float(passed), passed)}
    said |= {f"s{n}": _other(draw, chance, graded=n == scorers - 1) for n in range(1, scorers)}
    return ScoredTrial("id", verdict != "error", verdict, {} if verdict == "error" else said)


def _other(draw: random.Random, chance: float, *, graded: bool) -> ScorerOutcome:
    value = min(1.0, max(0.0, draw.gauss(chance, 0.2))) if graded else float(draw.random() < chance)
    return ScorerOutcome("ok", value, value >= 0.5)


def _version(setting: Setting) -> ExperimentVersion:
    bindings = tuple(
        Binding(spec=ScorerSpec(name=f"s{n}", scorer=f"s{n}"), required=n == 0) for n in range(setting.scorers)
    )
    return ExperimentVersion(
        id="v",
        experiment_id="e",
        number=1,
        target=TARGET,
        dataset_id="ds",
        dataset_version_id="dsv",
        bindings=bindings,
        config=ExperimentConfig(),
        created_at=NOW,
    )


def main(number: int) -> None:
    each = max(1, number // len(SETTINGS))
    print(f"A/A, {each} pairs of each setting                          said  scorers  covered  detectable  found")
    whole = []
    for setting in SETTINGS:
        found = rates(setting, 0.0, each)
        whole.append(found)
        planted = power(setting, each)
        told = "nothing is" if planted is None else f"{planted[0]:.3f}       {planted[1]:.3f}"
        print(f"{setting!s:<56} {found.alarms:.3f}  {found.scorers:.3f}    {found.covered:.3f}    {told}")
    print(
        f"all {each * len(SETTINGS)} A/A pairs: said {sum(one.alarms for one in whole) / len(whole):.4f}, "
        f"scorers {sum(one.scorers for one in whole) / len(whole):.4f}, "
        f"covered {sum(one.covered for one in whole) / len(whole):.4f}"
    )
    lost = rates(Setting(60, 1, 1, 1, 0.7), 0.0, each * 4, broken=0.1)
    print(f"with a tenth of the tries broken on both sides: said {lost.alarms:.3f}, covered {lost.covered:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_600)
