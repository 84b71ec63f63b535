"""Which runs a person means by BASE and CANDIDATE, and what is known of each."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from evalscribe.app.collections.choice import chosen, planned
from evalscribe.app.collections.importing import import_file
from evalscribe.app.judging.subjects import Finder
from evalscribe.app.reports.reported import findings_of
from evalscribe.app.runs import collection_name, of_experiment
from evalscribe.app.sightings import sightings
from evalscribe.app.watcher import Watcher
from evalscribe.collections.compare import RunEvals
from evalscribe.errors import AccessError, DataError, EvalscribeError, NotFoundError, UsageError
from evalscribe.failures.prepare import failure_record
from evalscribe.ids import model_key, same_model
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.record import evidence_of
from evalscribe.model.run import Run
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records
from evalscribe.workspace import Workspace

SUMMARY = "failed_evals.json"
"""Of a snapshot: such a folder is one run."""
MOST_READ = 2_000
"""Failures of an imported run whose records are looked into for their error."""


@dataclass(frozen=True)
class SideReader:
    """Reads the runs that a side of a comparison names."""

    workspace: Workspace
    finder: Finder
    watcher: Watcher
    collection: str | None = None
    """Named by the caller; None for the configured one, or the only one."""

    async def bring(self, path: Path) -> tuple[Run, ...]:
        """Import a file into the collection named after it; its runs."""
        workspace = self.workspace
        records = open_records(path, RunOverrides())
        collection = planned(workspace.store.collections.collections(), None, None, collection_name(str(path)))
        done = await import_file(workspace.store.runs, workspace.store.collections, records, collection, self.watcher)
        if done.stopped:
            self.watcher.say(f"{path} was not read to its end: {done.stopped}")
        return done.runs


async def side(reader: SideReader, name: str) -> tuple[RunEvals, ...]:
    """The runs of one side: a file's, a run by its id, its beginning or address, or all of a model in the collection.

    Raises `EvalscribeError`; `UsageError` where they are of several models.
    """
    runs = await _runs(reader, name)
    if len({model_key(run.provider, run.model) for run in runs}) > 1:
        told = ", ".join(sorted({f"{run.provider}/{run.model}" for run in runs}))
        raise UsageError(f"{name} has runs of several models ({told}): name one of them in place of it")
    return tuple(played(reader, run) for run in runs)


def played(reader: SideReader, run: Run) -> RunEvals:
    """A stored run with its evals, and what its report and its evidence say of its failures."""
    known = reader.workspace.store.analyses.get_run(run.id) or run
    seen = _seen(reader, known) if known.failures else ()
    return RunEvals(
        run=known,
        graded=reader.workspace.store.runs.graded(run.id),
        findings=findings_of(reader.workspace.reports, known),
        signatures={one.eval_id: one.signature for one in seen},
        unreached=frozenset(one.eval_id for one in seen if not one.judged and (one.task or one.grader)),
    )


async def _runs(reader: SideReader, name: str) -> Sequence[Run]:
    if _is_file(name):
        runs = await reader.bring(Path(name))
        if not runs:
            raise DataError(f"{name} holds no run")
        return runs
    with suppress(NotFoundError):  # `provider/model` names no folder
        if run := reader.finder.stored(name):
            of_experiment(reader.workspace, run.id)  # Refuses one that goes on: only a part of it is stored.
            return (run,)
    if found := _of_model(reader, name):
        return found
    return (await _fetched(reader, of_experiment(reader.workspace, name) or name),)


def _is_file(name: str) -> bool:
    try:
        path = Path(name)
        return path.is_file() and path.name != SUMMARY
    except (OSError, ValueError):
        return False


def _of_model(reader: SideReader, name: str) -> tuple[Run, ...]:
    """`provider/model`, or the model's name alone, within the collection."""
    try:
        collection = chosen(reader.workspace, reader.collection)
    except EvalscribeError:
        if reader.collection or _can_only_be_a_model(name):
            raise
        return ()
    return tuple(run for run in reader.workspace.store.runs.runs(collection.id) if _is_called(run, name))


def _can_only_be_a_model(name: str) -> bool:
    try:
        return "/" in name and "://" not in name and not Path(name).exists()
    except OSError:  # longer than a path can be
        return True


def _is_called(run: Run, name: str) -> bool:
    provider, slash, model = name.partition("/")
    return name == run.model or (bool(slash) and same_model(provider, model, run.provider, run.model))


async def _fetched(reader: SideReader, name: str) -> Run:
    try:
        choice = await reader.finder.run(name)
    except NotFoundError as error:
        raise NotFoundError(f"{error}\n{name!r} is no stored run, file or model of a collection either") from None
    except AccessError as error:  # it has two lines already
        raise AccessError(f"{name!r} is no model of a collection, and {error}") from None
    await reader.finder.gathered(choice)
    return choice.run


def _seen(reader: SideReader, run: Run) -> tuple[FailureFingerprint, ...]:
    """What the evidence of its failures shows; of an imported run that was not analysed its records are read."""
    known = len(reader.workspace.store.analyses.sightings(run.id)) == len(run.failures)
    if known or reader.workspace.store.runs.record(run.failures[0].id) is None:
        return sightings(reader.workspace.store.analyses, run)
    records = islice(reader.workspace.store.runs.records(run.id, "failed"), MOST_READ)
    return tuple(failure_record(run, evidence_of(record)) for record in records)
