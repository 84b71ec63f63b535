"""Find a collection and its runs; export runs, and delete what nothing refers to."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.ids import Frozen, path_part
from evalscribe.judging.rubrics import DEFAULT_COLLECTION
from evalscribe.model.record import SweptRows
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Run
from evalscribe.sources.export import render_line
from evalscribe.store.lookup import find_by_prefix, nearest
from evalscribe.text import join_first
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.records import RunStore

MOST_NAMED = 10


class CollectionName(NamedTuple):
    """For error messages: the option that chooses a collection, and a sentence on what creates one."""

    field: str
    made: str


OPTION = CollectionName("collection", "`evalscribe import FILE` creates one; analyze alone does not")
ARGUMENT = CollectionName("collection_id", "Client.import_file creates one")


class CollectionSummary(BaseModel):
    """A collection and its runs, as `--json` prints them."""

    id: str
    name: str
    runs: tuple[Run, ...] = ()


class Collections(BaseModel):
    collections: tuple[CollectionSummary, ...]


def choose_collection(workspace: Workspace, named: str | None, naming: CollectionName = OPTION) -> Collection:
    """Find a collection by id or name; if `named` is None, return the configured collection, else the only one.

    Raises:
        NotFoundError: The collection does not exist.
        UsageError: The choice is ambiguous.
    """
    own = own_collections(workspace)
    if wanted := named or workspace.settings.collection.value:
        return _found(workspace, own, wanted, naming)
    if len(own) == 1:
        return own[0]
    if not own:
        raise NotFoundError(f"there is no collection yet: {naming.made}")
    raise UsageError(
        f"there are several collections; choose one with `{naming.field}`: {_told(own)}", fields=(naming.field,)
    )


def own_collections(workspace: Workspace) -> tuple[Collection, ...]:
    """Return all collections except that of the shared rubrics, which is included only if it has runs."""
    there = workspace.store.collections.collections()
    return tuple(one for one in there if one.id != DEFAULT_COLLECTION or workspace.store.runs.runs(one.id))


def plan_collection(
    there: Sequence[Collection], name: str | None, collection_id: str | None, otherwise: str
) -> Collection:
    """Return the existing collection with this id or name, else a new collection, by default named `otherwise`."""
    if collection_id:
        known = next((one for one in there if one.id == collection_id), None)
        return Collection(id=collection_id, name=name or (known.name if known else otherwise))
    wanted = name or otherwise
    return _any_of(there, wanted) or Collection(id=_free_id(there, wanted), name=wanted)


def _any_of(there: Iterable[Collection], wanted: str) -> Collection | None:
    """Find a collection. An id takes precedence over a name, and among equal names the oldest takes precedence."""
    return next((one for one in sorted(there, key=lambda one: one.id != wanted) if wanted in (one.id, one.name)), None)


def _found(workspace: Workspace, there: tuple[Collection, ...], wanted: str, naming: CollectionName) -> Collection:
    if wanted == DEFAULT_COLLECTION:
        there = workspace.store.collections.collections()
    id = (
        wanted if (found := _any_of(there, wanted)) else find_by_prefix("collection", wanted, (one.id for one in there))
    )
    if found := found or next((one for one in there if one.id == id), None):
        return found
    near = get_close_matches(wanted, [name for one in there for name in (one.name, one.id)], n=3, cutoff=0.6)
    told = f"nearest: {', '.join(dict.fromkeys(near))}" if near else f"collections: {_told(there)}"
    raise NotFoundError(f"collection {wanted!r} not found; {told if there else f'there is none yet: {naming.made}'}")


def _free_id(there: Iterable[Collection], name: str) -> str:
    """Derive an unused collection id from the collection's name."""
    taken = {one.id for one in there}
    base, number = path_part(name), 1
    while (one := base if number == 1 else f"{base}-{number}") in taken:
        number += 1
    return one


def _told(there: Iterable[Collection]) -> str:
    told = [one.name if one.id == one.name else f"{one.name} ({one.id})" for one in there]
    return join_first(told, MOST_NAMED)


def export_run_lines(run_store: "RunStore", collection: Collection, wanted: Sequence[str]) -> Iterator[str]:
    """Yield the named runs, or all runs of the collection, and their evals as JSON lines.

    Raises `NotFoundError` before the first line if the collection lacks a named run.
    """
    return _lines(run_store, find_runs(run_store, collection, wanted))


def find_runs(run_store: "RunStore", collection: Collection, wanted: Sequence[str]) -> tuple[Run, ...]:
    """Find runs by id or the beginning of an id; without any, return all of them."""
    there = run_store.runs(collection.id)
    return tuple(find_run(there, name, collection) for name in wanted) if wanted else there


def find_run(there: Sequence[Run], name: str, collection: Collection) -> Run:
    """Find one run. Raises `NotFoundError` if the name matches none, `UsageError` if it matches several."""
    ids = [run.id for run in there]
    id = name if name in ids else find_by_prefix("run", name, ids)
    if id is None:
        known = nearest(name, ids) if ids else "it has none"
        raise NotFoundError(f"collection {collection.name!r} has no run {name[:80]!r}; {known}")
    return there[ids.index(id)]


def _lines(run_store: "RunStore", runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        yield render_line(run)
        for record in run_store.records(run.id):
            yield render_line(record)


class DeletedCounts(Frozen):
    """Counts of deleted rows; with `dry_run`, of rows that would be deleted."""

    dry_run: bool
    forgotten: tuple[SweptRows, ...]
    """The number of rows of every kind, even if it is 0."""
    given_back: int = 0
    """Bytes by which the files on disk shrank."""


def collect_garbage(run_store: "RunStore", *, dry_run: bool) -> DeletedCounts:
    """Delete stored data that nothing refers to. Raises `EvalscribeError` if the store cannot be used."""
    forgotten = run_store.sweep(dry_run=dry_run)
    return DeletedCounts(dry_run=dry_run, forgotten=forgotten, given_back=0 if dry_run else run_store.give_back())
