"""Items out of runs that are in the store: imported, analysed, or of an experiment."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from evalscribe.app.collections.stored_runs import analysed_run, whole_run
from evalscribe.app.datasets.told import Told, of_attempt, of_evidence, of_record
from evalscribe.app.datasets.upload import batches
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.evidence import Evidence
from evalscribe.model.experiment import ExperimentRun
from evalscribe.model.storage import AddedCounts, EvalStore, Store
from evalscribe.workspace import Workspace


class Taken(Frozen):
    """What was taken out of a run."""

    dataset: str
    run_id: str
    added: AddedCounts
    unusable: tuple[str, ...] = ()
    """Evals of which the run does not say what they were asked."""
    unknown: int = 0
    """Evals that did not pass, of which the run does not say what was expected: nothing is."""


def taken(
    workspace: Workspace,
    dataset: Dataset,
    named: str,
    *,
    evals: Sequence[str] = (),
    failed: bool = False,
    expected: tuple[JsonValue] | None = None,
) -> Taken:
    """Put each eval of a run into the draft: what it was asked, and what it answered if it passed.

    What a failed one answered is no example: there it is what was expected of it, if the run says so. Of several tries
    the first is taken.

    Args:
        workspace: Where the run is.
        dataset: Whose draft it is.
        named: The run.
        evals: Paths or ids; of an experiment's run, keys of items; none for all.
        failed: Whether only those are taken that did not pass.
        expected: In place of what the run says; of one eval only.

    Raises:
        NotFoundError: There is no such run or eval.
        UsageError: Several are meant.
    """
    if expected is not None and len(evals) != 1:
        raise UsageError("--expected-output says what one eval should give: name that one with --eval")
    run_id, told = _run(workspace, named)
    notes, added = _Notes(), AddedCounts()
    for some in batches(_items(_chosen(told, evals, run_id, failed=failed), expected, notes)):
        added += workspace.store.datasets.put(dataset.id, some)
    unusable = tuple(notes.unusable)
    return Taken(dataset=dataset.name, run_id=run_id, added=added, unusable=unusable, unknown=notes.unknown)


@dataclass
class _Notes:
    unusable: list[str] = field(default_factory=list)
    unknown: int = 0


def _items(chosen: Iterable[Told], expected: tuple[JsonValue] | None, notes: _Notes) -> Iterator[Item]:
    seen: set[str] = set()
    for told in chosen:
        item = told.expecting(expected)
        if item is None:
            notes.unusable.append(told.names[0])
        elif item.key not in seen:
            seen.add(item.key)
            notes.unknown += item.expected_output is None and not told.passed
            yield item


def _chosen(told: Iterator[Told], evals: Sequence[str], run_id: str, *, failed: bool) -> Iterable[Told]:
    some = (one for one in told if not (failed and one.passed))
    if not evals:
        return some
    found = [one for one in some if not set(evals).isdisjoint(one.names)]
    known = {name for one in found for name in one.names}
    if missing := [name for name in evals if name not in known]:
        what = "failed eval" if failed else "eval"
        raise NotFoundError(f"run {run_id} has no {what} {missing[0]!r}")
    return found


def _run(workspace: Workspace, named: str) -> tuple[str, Iterator[Told]]:
    """Its id, and what it says of each eval. An experiment's run comes before what is archived of it."""
    if (run := workspace.store.experiment_runs.run(named)) is not None:
        return run.id, _attempts(workspace, run)
    if (run_id := whole_run(workspace.store.analyses, workspace.store.runs, named)) is not None:
        return run_id, _records(workspace.store.runs, run_id)
    run_id = analysed_run(workspace.store.analyses, named)
    return run_id, _failures(workspace.store.analyses, run_id)


def _attempts(workspace: Workspace, run: ExperimentRun) -> Iterator[Told]:
    for attempt in workspace.store.experiment_runs.attempts(run.id):
        yield of_attempt(attempt, workspace.store.datasets.item(run.dataset_version_id, attempt.item.item_key))


def _records(archive: EvalStore, run_id: str) -> Iterator[Told]:
    for record in archive.records(run_id):
        yield of_record(record, archive.documents(run_id, record.eval.id))


def _failures(store: Store, run_id: str) -> Iterator[Told]:
    run = store.get_run(run_id)
    for eval in run.failures if run else ():
        evidence = store.get_evidence(run_id, eval.id)
        yield of_evidence(run_id, evidence if isinstance(evidence, Evidence) else Evidence(eval=eval))
