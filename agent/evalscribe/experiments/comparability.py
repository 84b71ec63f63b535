"""Reduce runs to what a comparison needs, and check whether two can be compared."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from evalscribe.experiments.scoring import trial_verdict
from evalscribe.model.dataset import Item
from evalscribe.model.experiment import ExperimentRun, ExperimentVersion, ItemVerdict, RunItem
from evalscribe.model.run_comparison import RunSide
from evalscribe.model.score import Binding, Score, ScoreResult, ScoreStatus
from evalscribe.text import join_first, pluralise


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
    """Return the run with verdicts recomputed from only these scorers."""
    tries = {key: [one._replace(verdict=_verdict(one, bindings)) for one in own] for key, own in side.tries.items()}
    return ComparedRun(side.run, side.version, side.experiment, side.build, side.items, tries)


def run_side(side: ComparedRun, keys: Sequence[str]) -> RunSide:
    """Summarise one side over these items."""
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


def passes(tries: Iterable[ScoredTrial]) -> tuple[Fraction, ...]:
    """Return 1 for each trial that passed and 0 for each that did not."""
    return tuple(Fraction(one.verdict == "passed") for one in tries)


def rate(tries: Sequence[ScoredTrial]) -> Fraction:
    return sum(passes(tries), Fraction(0)) / len(tries)


def _mean(values: Sequence[Fraction]) -> float | None:
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
    return SharedItems(keys, bindings, (*items, *_scorers(before, now)))


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


def _scorers(before: Mapping[str, Binding], now: Mapping[str, Binding]) -> Iterator[str]:
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
