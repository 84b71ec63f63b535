"""Runs that are in the store whole: which one is meant, and a file of runs brought in to be analysed."""

from collections.abc import Callable
from typing import Protocol

from evalscribe.app.collections import planned
from evalscribe.app.importing import ImportDesk, ImportWatcher, import_file
from evalscribe.errors import DataError, UsageError
from evalscribe.ports import Archive, Records, Shelf, Store
from evalscribe.prose import counted

SHORTEST_PREFIX = 4
"""Characters of a run's id that may stand for it."""
MOST_NAMED = 10


class Arrivals(ImportWatcher, Protocol):
    """Hears of a file as it is read."""

    def say(self, line: str) -> None:
        """Something a person should know: one line."""


def whole_run(store: Store, archive: Archive, name: str) -> str | None:
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


async def bring_in(
    archive: Archive, shelf: Shelf, open_file: Callable[[], Records], called: tuple[str, str], watcher: Arrivals
) -> str:
    """Import a file into the collection named after it; the id of its run. `called`: the file, the collection.

    Raises `EvalscribeError` for a file that holds no run, `UsageError` where it holds several.
    """
    file, name = called
    records = open_file()
    collection = planned(shelf, None, None, name)
    shelf.add_collection(collection)
    done = await import_file(ImportDesk(archive), records, collection, watcher)
    left_out = f"; left out: {counted(sum(done.left_out.values()), 'thing')}" if done.left_out else ""
    evals = counted(sum(done.statuses.values()), "eval")
    watcher.say(f"{file} ({done.format}): {evals}, {done.added.new} new, in collection {collection.name}{left_out}")
    if done.stopped:
        watcher.say(f"Not read to its end: {done.stopped}")
    ids = [run.id for run in done.runs]
    if not ids:
        raise DataError(f"{file} holds no run")
    if len(ids) > 1:
        more = f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
        raise UsageError(f"{file} holds {len(ids)} runs; name one by its id: {', '.join(ids[:MOST_NAMED])}{more}")
    return ids[0]


def is_whole(archive: Archive, run_id: str) -> bool:
    """Whether at least one eval of the run was imported."""
    return next(archive.records(run_id), None) is not None
