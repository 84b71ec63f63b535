"""Runs that are in the store whole: which one is meant, and a file of runs brought in to be analysed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from evalscribe.app.collections.choice import planned
from evalscribe.app.collections.importing import Imported, ImportWatcher, import_file
from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.model.collection_storage import CollectionStore
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Run
from evalscribe.model.storage import EvalStore, Records, Store
from evalscribe.text import join_first, pluralise

SHORTEST_PREFIX = 4
"""Characters of a run's id that may stand for it."""
MOST_NAMED = 10


class Arrivals(ImportWatcher, Protocol):
    """Hears of a file as it is read."""

    def say(self, line: str) -> None:
        """Something a person should know: one line."""


def whole_run(store: Store, archive: EvalStore, name: str) -> str | None:
    """Id of the imported run that is called so, or whose id begins so; None where there is none.

    Raises `UsageError` where several begin so.
    """
    if is_whole(archive, name):
        return name
    ids = store.run_ids(name) if len(name) >= SHORTEST_PREFIX else ()
    found = [run_id for run_id in ids if is_whole(archive, run_id)]
    if len(found) > 1:
        raise UsageError(f"{len(found)} imported runs begin with {name}: {', '.join(found[:MOST_NAMED])}")
    return next(iter(found), None)


def analysed_run(store: Store, name: str) -> str:
    """Id of the run in the store that is called so, or whose id begins so.

    Raises `NotFoundError`, `UsageError` where several begin so.
    """
    ids = store.run_ids(name) if len(name) >= SHORTEST_PREFIX else ()
    if name in ids:
        return name
    if len(ids) > 1:
        raise UsageError(f"{len(ids)} runs begin with {name}: {join_first(ids, MOST_NAMED)}")
    if not ids:
        raise NotFoundError(f"there is no run {name!r} in the store; `evalscribe import` brings one in")
    return ids[0]


@dataclass(frozen=True)
class RunFile:
    """A file that holds runs."""

    name: str
    open: Callable[[], Records]
    said: Sequence[str] = ()
    """What of provider, model and experiment the user said."""


async def bring_in(
    archive: EvalStore, shelf: CollectionStore, files: Sequence[RunFile], called: tuple[str, str], watcher: Arrivals
) -> str:
    """Import files; the id of the only run in them. `called`: what the user named, the collection after it.

    A run that is in a collection stays there. Raises `EvalscribeError` for files that hold no run, `UsageError` where
    they hold several.
    """
    runs: dict[str, Run] = {}
    for file in files:
        collection = _home(archive, shelf, file) or planned(shelf.collections(), None, None, called[1])
        done = await import_file(archive, shelf, file.open(), collection, watcher, said=file.said)
        watcher.say(_told(file.name, done))
        if done.stopped:
            watcher.say(f"Not read to its end: {done.stopped}")
        runs |= {run.id: run for run in done.runs}
    if not runs:
        raise DataError(f"{called[0]} holds no run")
    if len(runs) > 1:
        names = "\n".join(f"  {run.id} ({run.model}, {run.experiment})" for run in list(runs.values())[:MOST_NAMED])
        more = f"\n  and {len(runs) - MOST_NAMED} more" if len(runs) > MOST_NAMED else ""
        raise UsageError(f"{called[0]} holds {len(runs)} runs; name one by its id:\n{names}{more}")
    return next(iter(runs))


def _home(archive: EvalStore, shelf: CollectionStore, file: RunFile) -> Collection | None:
    """The collection that has the file's first run already."""
    collections = shelf.collections()
    first = next(file.open().read(), None) if collections else None
    if not isinstance(first, Run) or archive.run(first.id) is None:
        return None
    return next((one for one in collections if any(run.id == first.id for run in archive.runs(one.id))), None)


def _told(file: str, done: Imported) -> str:
    left_out = f"; left out: {pluralise(sum(done.left_out.values()), 'thing')}" if done.left_out else ""
    evals = pluralise(sum(done.statuses.values()), "eval")
    return f"{file} ({done.format}): {evals}, {done.added.new} new, in collection {done.collection.name}{left_out}"


def is_whole(archive: EvalStore, run_id: str) -> bool:
    """Whether at least one eval of the run was imported."""
    return next(archive.records(run_id), None) is not None
