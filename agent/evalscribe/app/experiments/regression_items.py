"""Failures of a run, and the items that a regression dataset makes of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from evalscribe.app.collections.stored_runs import analysed_run, whole_run
from evalscribe.app.datasets.told import Told, of_evidence, of_record
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.experiments.regression import FailedTrial
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.dataset import Item
from evalscribe.model.evidence import Evidence
from evalscribe.model.experiment import ExperimentRun, RunItem
from evalscribe.model.experiment_storage import ScoreQuery
from evalscribe.model.run import Eval
from evalscribe.model.storage import EvalStore, Store
from evalscribe.text import name, path
from evalscribe.workspace import Workspace


@dataclass(frozen=True)
class Failed:
    """The failures of one run, and how an item is made of each."""

    run_id: str
    failures: Sequence[FailedTrial]
    item: Callable[[FailedTrial], Item | None]
    """None where the run does not say what was asked."""
    broken: int = 0
    """Items that never failed, but gave no answer or could not be scored in some try."""


def of_experiment(workspace: Workspace, run: ExperimentRun, run_item_ids: Sequence[str] = ()) -> Failed:
    """Every failed try, or those that are named, which may have no answer or no verdict as well.

    Raises `NotFoundError` for one that the run does not have, `UsageError` for one that passed.
    """
    items = list(workspace.store.experiment_runs.items(run.id))
    wanted = _named(run, items, run_item_ids) if run_item_ids else [one for one in items if one.verdict == "failed"]
    tries = {one.id: one for one in wanted}
    failures = [FailedTrial(one.item_key, _path(run, one), one.id) for one in wanted]
    failed = {one.item_key for one in items if one.verdict == "failed"}
    broken = {one.item_key for one in items if one.verdict in ("error", "unscored")} - failed

    def made(failure: FailedTrial) -> Item | None:
        item = workspace.store.datasets.item(run.dataset_version_id, failure.key)
        return item and item.model_copy(update={"source": _source(workspace, tries[failure.id], item)})

    return Failed(run.id, failures, made, 0 if run_item_ids else len(broken))


def of_stored(store: Store, archive: EvalStore, named: str) -> Failed:
    """Of a run that was imported or analysed: every eval that failed. Raises `NotFoundError`, `UsageError`."""
    if (run_id := whole_run(store, archive, named)) is not None:
        told = {
            record.eval.id: of_record(record, archive.documents(run_id, record.eval.id))
            for record in archive.records(run_id, "failed")
        }
        evals = [one.eval for one in archive.graded(run_id) if one.eval.id in told]
    else:
        run_id = analysed_run(store, named)
        run = store.get_run(run_id)
        evals = list(run.failures) if run else []
        told = dict(_evidence(store, run_id, evals))
    failures = [FailedTrial(name(_bare(eval)), path(eval.path), eval.id) for eval in evals]
    return Failed(run_id, failures, lambda failure: _item(told.get(failure.id), failure))


def with_finding(item: Item, finding: FindingSummary | None, reviewer: str | None) -> Item:
    """Why it was taken is part of where it comes from."""
    if finding is None:
        return item
    said: dict[str, JsonValue] = {"classification": finding.classification, "cause": finding.cause}
    if finding.by_person:
        said["reviewer"] = reviewer or "people"
    return item.model_copy(update={"source": item.source | said})


def _named(run: ExperimentRun, items: Sequence[RunItem], ids: Sequence[str]) -> list[RunItem]:
    known = {one.id: one for one in items}
    for id in ids:
        if id not in known:
            raise NotFoundError(
                f"run {run.name or run.id} has no run item {id!r}; `evalscribe reports failures {run.id}` shows them"
            )
        if known[id].verdict == "passed":
            raise UsageError(f"--run-item-id {id}: {known[id].item_key} passed in this try; leave it out")
    return [known[id] for id in dict.fromkeys(ids)]


def _path(run: ExperimentRun, one: RunItem) -> str:
    """As its record in the archive is called, and so its finding in a report."""
    return path(f"{one.item_key}#{one.repetition}" if run.repetitions > 1 else one.item_key)


def _source(workspace: Workspace, one: RunItem, item: Item) -> dict[str, JsonValue]:
    scores = workspace.store.experiment_runs.scores(ScoreQuery(run_id=one.run_id, run_item_id=one.id))
    failing: list[JsonValue] = [score.scorer for score in scores if score.passed is False]
    source: dict[str, JsonValue] = {"run": one.run_id, "run_item": one.id, "verdict": one.verdict, "scorers": failing}
    return source | ({"of": item.source} if item.source else {})


def _evidence(store: Store, run_id: str, evals: Sequence[Eval]) -> Iterator[tuple[str, Told]]:
    for eval in evals:
        evidence = store.get_evidence(run_id, eval.id)
        if isinstance(evidence, Evidence):
            yield eval.id, of_evidence(run_id, evidence)


def _bare(eval: Eval) -> str:
    """Without its trial: the trials of an eval are one item."""
    return f"{eval.category}/{eval.name}" if eval.category else eval.name


def _item(told: Told | None, failure: FailedTrial) -> Item | None:
    item = told and told.expecting(None)
    return item.model_copy(update={"key": failure.key, "cluster": None}) if item else None
