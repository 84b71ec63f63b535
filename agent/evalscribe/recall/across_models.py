"""Evals that fail in the same way for several models: evidence about the evals."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import PurePosixPath

from evalscribe.across import Elsewhere, Glimpse, Passing
from evalscribe.ids import Frozen
from evalscribe.model.finding import Classification, CrossModelFailures, HumanLabel
from evalscribe.model.repository import ReportFile
from evalscribe.recall.follow_ups import SeenIn
from evalscribe.recall.past import SHORTEST_PREFIX
from evalscribe.recall.recurring import ActionSeen, Kept, actions, kept_reports


class ModelSeen(Frozen):
    """A model that fails in the same way."""

    model: str
    """`provider/model`."""
    runs: tuple[str, ...]
    label: Classification | None = None
    """In force in its newest report of such a run."""
    by_person: bool = False
    """Whether a person gave or confirmed the label."""


class AlikeRow(Frozen):
    """One eval, in one experiment and one version, that fails in the same way for several models."""

    eval: str
    experiment: str
    step: str | None
    signature: str
    """Step and error without its accidents."""
    failing: int
    models: int
    """Of how many that can be compared."""
    seen: tuple[ModelSeen, ...]
    """By name."""
    earlier: tuple[str, ...] = ()
    """Models that failed in the same way in an earlier version of this eval: not counted."""
    actions: tuple[ActionSeen, ...] = ()


class AcrossModels(Frozen):
    rows: tuple[AlikeRow, ...] = ()
    """What most models fail first, then by path."""
    notes: tuple[str, ...] = ()


def across_models(
    experiments: Iterable[tuple[Sequence[Glimpse], Sequence[Passing]]],
    files: Sequence[ReportFile],
    labels: Sequence[HumanLabel] = (),
    *,
    least: int = 2,
    seen_in: SeenIn = lambda *_: None,
) -> AcrossModels:
    """`experiments`: per experiment every failure of its stored runs, and the runs that show all they had.

    `files`: reports of all models; `labels`: what people said in them, where git was read.
    """
    alike = [
        (same, found)
        for failures, passing in experiments
        for same, found in _alike(failures, passing)
        if found.failing >= least
    ]
    runs = {one.run for same, _ in alike for one in same}
    kept, notes = _reports(files, runs)
    of_run = {run: [one for one in kept if one.report.is_of(run)] for run in runs}
    given = {(label.run, label.eval): label for label in labels if label.in_force}
    rows = [_row(same, found, kept, of_run, given, seen_in) for same, found in alike]
    return AcrossModels(rows=tuple(sorted(rows, key=lambda row: (-row.failing, row.eval, row.experiment))), notes=notes)


def _reports(files: Sequence[ReportFile], runs: Set[str]) -> tuple[tuple[Kept, ...], tuple[str, ...]]:
    """Those of the models of these runs; all others too where something was done after one of them.

    To read a report takes a second for a thousand failures.
    """
    words = {run[:SHORTEST_PREFIX] for run in runs}
    named = {_folder(file) for file in files if any(word in file.name or word in file.text for word in words)}
    kept, notes = kept_reports([file for file in files if _folder(file) in named])
    if not any(one.report.analysis.actions_taken for one in kept):
        return kept, notes
    others, more = kept_reports([file for file in files if _folder(file) not in named])
    return (*kept, *others), (*notes, *more)


def _folder(file: ReportFile) -> str:
    return str(PurePosixPath(file.name).parent)


def _alike(
    failures: Sequence[Glimpse], passing: Sequence[Passing]
) -> Iterator[tuple[list[Glimpse], CrossModelFailures]]:
    """Failures of one version of an eval that look the same, with what is known of all models."""
    by_eval: dict[str, list[Glimpse]] = defaultdict(list)
    alike: dict[tuple[object, ...], list[Glimpse]] = defaultdict(list)
    for one in failures:
        by_eval[one.eval].append(one)
        if one.version and one.look:
            alike[one.eval, one.look, one.version].append(one)
    elsewhere = Elsewhere(by_eval, passing)
    for same in alike.values():
        if len(same) > 1 and (found := elsewhere.across(same[0])):
            yield same, found


def _row(
    alike: Sequence[Glimpse],
    found: CrossModelFailures,
    kept: Sequence[Kept],
    of_run: Mapping[str, Sequence[Kept]],
    given: Mapping[tuple[str, str], HumanLabel],
    seen_in: SeenIn,
) -> AlikeRow:
    first = alike[0]
    models: dict[str, list[Glimpse]] = defaultdict(list)
    for one in alike:
        models[one.key].append(one)
    runs = dict.fromkeys(one.run for one in alike)
    reports = {(one.model, one.place): one for run in runs for one in of_run[run]}
    seen = (_model(mine, of_run, given) for mine in models.values())
    return AlikeRow(
        eval=first.eval,
        experiment=first.experiment,
        step=first.step,
        signature=first.look[0] if first.look else "",
        failing=found.failing,
        models=found.models,
        seen=tuple(sorted(seen, key=lambda one: one.model)),
        earlier=found.earlier,
        actions=tuple(actions(first.eval, [reports[at] for at in sorted(reports)], kept, seen_in)),
    )


def _model(
    mine: Sequence[Glimpse], of_run: Mapping[str, Sequence[Kept]], given: Mapping[tuple[str, str], HumanLabel]
) -> ModelSeen:
    runs = tuple(dict.fromkeys(one.run for one in mine))
    named = ModelSeen(model=mine[0].model, runs=runs)
    person = next((label for run in runs if (label := given.get((run, mine[0].eval)))), None)
    if person:
        return named.model_copy(update={"label": person.label, "by_person": True})
    newest_first = sorted({(one.model, one.place): one for run in runs for one in of_run[run]}.items())
    told = (one.failures.get(mine[0].eval) for _, one in newest_first)
    finding = next((one for one in told if one), None)
    if finding is None:
        return named
    return named.model_copy(update={"label": finding.classification, "by_person": finding.by_person})
