"""One of two runs that are compared, reduced to what a comparison needs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from evalscribe.evaluate.verdict import verdict
from evalscribe.model.dataset import Item
from evalscribe.model.experiment import ExperimentRun, ExperimentVersion, ItemVerdict, RunItem
from evalscribe.model.run_comparison import RunSide
from evalscribe.model.score import Binding, Score, ScoreResult, ScoreStatus


class Said(NamedTuple):
    """What one scorer said of a try."""

    status: ScoreStatus
    value: float | None
    passed: bool | None


class Tried(NamedTuple):
    """One try at an item."""

    id: str
    answered: bool
    verdict: ItemVerdict
    scores: Mapping[str, Said]

    @property
    def scored(self) -> bool:
        return self.verdict in ("passed", "failed")


class Content(NamedTuple):
    digest: str
    cluster: str | None


@dataclass(frozen=True)
class Sided:
    run: ExperimentRun
    version: ExperimentVersion
    experiment: str
    """Its name."""
    build: str | None
    items: Mapping[str, Content]
    """That it tries, of its dataset version, by key, in order."""
    tries: Mapping[str, Sequence[Tried]]
    """By item, in order of repetition; an item that was never tried is missing."""

    def of(self, key: str) -> Sequence[Tried]:
        return self.tries.get(key, ())

    def scored(self, key: str) -> tuple[Tried, ...]:
        return tuple(one for one in self.of(key) if one.scored)


def sided(
    run: ExperimentRun,
    version: ExperimentVersion,
    experiment: str,
    build: str | None,
    *,
    items: Iterable[Item],
    tried: Iterable[RunItem],
    scores: Iterable[Score],
) -> Sided:
    """`scores`: current ones. What they explain is not kept."""
    said: dict[str, dict[str, Said]] = {}
    for score in scores:
        said.setdefault(score.run_item_id, {})[score.scorer] = Said(score.status, score.value, score.passed)
    tries: dict[str, list[Tried]] = {}
    for one in sorted(tried, key=lambda one: one.repetition):
        made = Tried(one.id, one.status == "ok", one.verdict, said.get(one.id, {}))
        tries.setdefault(one.item_key, []).append(made)
    contents = {item.key: Content(item.digest, item.cluster) for item in items}
    return Sided(run, version, experiment, build, contents, tries)


def judged_by(side: Sided, bindings: Sequence[Binding]) -> Sided:
    """The side with its verdicts by some of its scorers only."""
    tries = {key: [one._replace(verdict=_verdict(one, bindings)) for one in own] for key, own in side.tries.items()}
    return Sided(side.run, side.version, side.experiment, side.build, side.items, tries)


def figures(side: Sided, keys: Sequence[str]) -> RunSide:
    """Of these items."""
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
        rate_of_scored=_mean([rate(own) for key in keys if (own := side.scored(key))]),
    )


def passes(tries: Iterable[Tried]) -> tuple[Fraction, ...]:
    """1 for what passed, 0 for what did not."""
    return tuple(Fraction(one.verdict == "passed") for one in tries)


def rate(tries: Sequence[Tried]) -> Fraction:
    return sum(passes(tries), Fraction(0)) / len(tries)


def _mean(values: Sequence[Fraction]) -> float | None:
    return float(sum(values, Fraction(0)) / len(values)) if values else None


def _verdict(one: Tried, bindings: Sequence[Binding]) -> ItemVerdict:
    results = {
        name: ScoreResult(status=said.status, value=said.value, passed=said.passed, explanation="as stored")
        for name, said in one.scores.items()
    }
    return verdict("ok" if one.answered else "error", results, bindings)
