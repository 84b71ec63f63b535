"""Which runs a person means by BASE and CANDIDATE, and what is known of each."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from evalscribe.app.collections.choice import chosen
from evalscribe.app.judging.subjects import Finder
from evalscribe.app.reports.reported import findings_of
from evalscribe.app.sightings import sightings
from evalscribe.compare import Played
from evalscribe.errors import AccessError, DataError, EvalscribeError, NotFoundError, UsageError
from evalscribe.gather import sighting
from evalscribe.ids import model_key, same_model
from evalscribe.ports import Archive, Library, Shelf, Store
from evalscribe.record_evidence import evidence_of
from evalscribe.run import Run
from evalscribe.sighting import Sighting

SUMMARY = "failed_evals.json"
"""Of a snapshot: such a folder is one run."""
MOST_READ = 2_000
"""Failures of an imported run whose records are looked into for their error."""


@dataclass(frozen=True)
class Rooms:
    """Where runs are kept, and how others get there."""

    store: Store
    archive: Archive
    shelf: Shelf
    library: Library
    finder: Finder
    bring: Callable[[Path], Awaitable[Sequence[Run]]]
    """Imports a file; its runs."""
    of_experiment: Callable[[str], str | None]
    """Id of the run of an experiment with this name or id; raises `UsageError` for one that has not ended."""
    collection: str | None = None
    """As the command line names it."""
    configured: str | None = None


async def side(rooms: Rooms, name: str) -> tuple[Played, ...]:
    """The runs of one side: a file's, a run by its id, its beginning or address, or all of a model in the collection.

    Raises `EvalscribeError`; `UsageError` where they are of several models.
    """
    runs = await _runs(rooms, name)
    if len({model_key(run.provider, run.model) for run in runs}) > 1:
        told = ", ".join(sorted({f"{run.provider}/{run.model}" for run in runs}))
        raise UsageError(f"{name} has runs of several models ({told}): name one of them in place of it")
    return tuple(played(rooms, run) for run in runs)


def played(rooms: Rooms, run: Run) -> Played:
    """A stored run with its evals, and what its report and its evidence say of its failures."""
    known = rooms.store.get_run(run.id) or run
    seen = _seen(rooms, known) if known.failures else ()
    return Played(
        run=known,
        graded=rooms.archive.graded(run.id),
        findings=findings_of(rooms.library, known),
        signatures={one.eval_id: one.signature for one in seen},
        unreached=frozenset(one.eval_id for one in seen if not one.judged and (one.task or one.grader)),
    )


async def _runs(rooms: Rooms, name: str) -> Sequence[Run]:
    if _is_file(name):
        runs = await rooms.bring(Path(name))
        if not runs:
            raise DataError(f"{name} holds no run")
        return runs
    with suppress(NotFoundError):  # `provider/model` names no folder
        if run := rooms.finder.stored(name):
            rooms.of_experiment(run.id)  # Refuses one that goes on: only a part of it is stored.
            return (run,)
    if found := _of_model(rooms, name):
        return found
    return (await _fetched(rooms, rooms.of_experiment(name) or name),)


def _is_file(name: str) -> bool:
    try:
        path = Path(name)
        return path.is_file() and path.name != SUMMARY
    except (OSError, ValueError):
        return False


def _of_model(rooms: Rooms, name: str) -> tuple[Run, ...]:
    """`provider/model`, or the model's name alone, within the collection."""
    try:
        collection = chosen(rooms.shelf, rooms.collection, rooms.configured)
    except EvalscribeError:
        if rooms.collection or _can_only_be_a_model(name):
            raise
        return ()
    return tuple(run for run in rooms.archive.runs(collection.id) if _is_called(run, name))


def _can_only_be_a_model(name: str) -> bool:
    try:
        return "/" in name and "://" not in name and not Path(name).exists()
    except OSError:  # longer than a path can be
        return True


def _is_called(run: Run, name: str) -> bool:
    provider, slash, model = name.partition("/")
    return name == run.model or (bool(slash) and same_model(provider, model, run.provider, run.model))


async def _fetched(rooms: Rooms, name: str) -> Run:
    try:
        choice = await rooms.finder.run(name)
    except NotFoundError as error:
        raise NotFoundError(f"{error}\n{name!r} is no stored run, file or model of a collection either") from None
    except AccessError as error:  # it has two lines already
        raise AccessError(f"{name!r} is no model of a collection, and {error}") from None
    await rooms.finder.gathered(choice)
    return choice.run


def _seen(rooms: Rooms, run: Run) -> tuple[Sighting, ...]:
    """What the evidence of its failures shows; of an imported run that was not analysed its records are read."""
    known = len(rooms.store.sightings(run.id)) == len(run.failures)
    if known or rooms.archive.record(run.failures[0].id) is None:
        return sightings(rooms.store, run)
    records = islice(rooms.archive.records(run.id, "failed"), MOST_READ)
    return tuple(sighting(run, evidence_of(record)) for record in records)
