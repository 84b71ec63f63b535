"""Find a collection and its runs. Export runs, and delete stored data that nothing refers to."""

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
    """Parts of error messages: the option that chooses a collection, and advice on how to create one."""

    field: str
    created_by: str


OPTION = CollectionName("collection", "`evalscribe import FILE` creates one; analyze alone does not")
ARGUMENT = CollectionName("collection_id", "Client.import_file creates one")


class CollectionSummary(BaseModel):
    """A collection with its runs, as `--json` prints it."""

    id: str
    name: str
    runs: tuple[Run, ...] = ()


class Collections(BaseModel):
    collections: tuple[CollectionSummary, ...]


def choose_collection(workspace: Workspace, name: str | None, naming: CollectionName = OPTION) -> Collection:
    """Find a collection by id or name.

    If `name` is None, return the configured collection. If none is configured, return the only collection.

    Raises:
        NotFoundError: The collection does not exist.
        UsageError: No name was given or configured, and there are several collections.
    """
    collections = own_collections(workspace)
    if requested := name or workspace.settings.collection.value:
        return _find_collection(workspace, collections, requested, naming)
    if len(collections) == 1:
        return collections[0]
    if not collections:
        raise NotFoundError(f"there is no collection yet: {naming.created_by}")
    raise UsageError(
        f"there are several collections; choose one with `{naming.field}`: {_names_text(collections)}",
        fields=(naming.field,),
    )


def own_collections(workspace: Workspace) -> tuple[Collection, ...]:
    """Return all collections. The collection of shared rubrics is included only if it contains runs."""
    collections = workspace.store.collections.collections()
    return tuple(
        collection
        for collection in collections
        if collection.id != DEFAULT_COLLECTION or workspace.store.runs.runs(collection.id)
    )


def plan_collection(
    collections: Sequence[Collection], name: str | None, collection_id: str | None, otherwise: str
) -> Collection:
    """Return the existing collection with this id or name, or a new collection.

    `otherwise` is used as the name if `name` is None and no existing collection has the id.
    """
    if collection_id:
        existing = next((collection for collection in collections if collection.id == collection_id), None)
        return Collection(id=collection_id, name=name or (existing.name if existing else otherwise))
    wanted_name = name or otherwise
    return _find_any(collections, wanted_name) or Collection(id=_free_id(collections, wanted_name), name=wanted_name)


def _find_any(collections: Iterable[Collection], requested: str) -> Collection | None:
    """Find a collection by id or name.

    Ids take precedence over names. If several collections have the name, the first is returned.
    """
    return next(
        (
            collection
            for collection in sorted(collections, key=lambda collection: collection.id != requested)
            if requested in (collection.id, collection.name)
        ),
        None,
    )


def _find_collection(
    workspace: Workspace, collections: tuple[Collection, ...], requested: str, naming: CollectionName
) -> Collection:
    # The collection of shared rubrics is hidden while it has no runs, but it can be named.
    if requested == DEFAULT_COLLECTION:
        collections = workspace.store.collections.collections()
    id = (
        requested
        if (match := _find_any(collections, requested))
        else find_by_prefix("collection", requested, (collection.id for collection in collections))
    )
    if match := match or next((collection for collection in collections if collection.id == id), None):
        return match
    similar = get_close_matches(
        requested, [name for collection in collections for name in (collection.name, collection.id)], n=3, cutoff=0.6
    )
    hint = f"nearest: {', '.join(dict.fromkeys(similar))}" if similar else f"collections: {_names_text(collections)}"
    raise NotFoundError(
        f"collection {requested!r} not found; {hint if collections else f'there is none yet: {naming.created_by}'}"
    )


def _free_id(collections: Iterable[Collection], name: str) -> str:
    """Derive an id for a new collection from its name, with a number appended if the id is taken."""
    # Different names can give the same id, because `path_part` replaces characters.
    taken_ids = {collection.id for collection in collections}
    base, number = path_part(name), 1
    while (free_id := base if number == 1 else f"{base}-{number}") in taken_ids:
        number += 1
    return free_id


def _names_text(collections: Iterable[Collection]) -> str:
    names = [
        collection.name if collection.id == collection.name else f"{collection.name} ({collection.id})"
        for collection in collections
    ]
    return join_first(names, MOST_NAMED)


def export_run_lines(run_store: "RunStore", collection: Collection, names: Sequence[str]) -> Iterator[str]:
    """Yield the named runs and their evals as JSON lines. Without names, yield all runs of the collection.

    Raises `NotFoundError` before the first line if a named run is not in the collection.
    """
    # This function is not a generator, so that an unknown run is reported before the caller opens the output file.
    return _lines(run_store, find_runs(run_store, collection, names))


def find_runs(run_store: "RunStore", collection: Collection, names: Sequence[str]) -> tuple[Run, ...]:
    """Find runs of a collection by id or by the beginning of an id. Without names, return all its runs."""
    runs = run_store.runs(collection.id)
    return tuple(find_run(runs, name, collection) for name in names) if names else runs


def find_run(runs: Sequence[Run], name: str, collection: Collection) -> Run:
    """Find one of the runs by its id. Raises `NotFoundError` if no id matches, `UsageError` if several match."""
    ids = [run.id for run in runs]
    id = name if name in ids else find_by_prefix("run", name, ids)
    if id is None:
        hint = nearest(name, ids) if ids else "it has none"
        raise NotFoundError(f"collection {collection.name!r} has no run {name[:80]!r}; {hint}")
    return runs[ids.index(id)]


def _lines(run_store: "RunStore", runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        yield render_line(run)
        for record in run_store.records(run.id):
            yield render_line(record)


class DeletedCounts(Frozen):
    """Numbers of deleted rows. In a dry run, numbers of rows that would be deleted."""

    dry_run: bool
    forgotten: tuple[SweptRows, ...]
    """Number of deleted rows of each kind, including kinds with no deleted rows."""
    given_back: int = 0
    """Number of bytes by which the files on disk shrank."""


def collect_garbage(run_store: "RunStore", *, dry_run: bool) -> DeletedCounts:
    """Delete stored data that nothing refers to. Raises `EvalscribeError` if the store cannot be used."""
    swept_rows = run_store.sweep(dry_run=dry_run)
    return DeletedCounts(dry_run=dry_run, forgotten=swept_rows, given_back=0 if dry_run else run_store.give_back())
