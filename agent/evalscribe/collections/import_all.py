"""Import several files, folders and remote runs at once, on one machine or many."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe import __version__
from evalscribe.collections.importing import (
    FileImport,
    ShowImport,
    import_file,
    import_source,
    open_file,
    rare_garbage_collection,
)
from evalscribe.collections.lookup import plan_collection
from evalscribe.collections.runs import SAMPLE, collection_name, open_source, run_overrides
from evalscribe.errors import DataError, NotFoundError, UnavailableError, UsageError
from evalscribe.ids import Frozen
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.protocols import AskParent, LostWork, Worker, WorkerPool
from evalscribe.model.rubric import Collection
from evalscribe.remote.engine import LOCAL
from evalscribe.sample import checkpoints_file
from evalscribe.sources.address import SUMMARY, RunOverrides
from evalscribe.sources.formats import run_files
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.collections import CollectionStore
    from evalscribe.store.records import RunStore

ImportFunction = Callable[[Collection, ShowImport], Awaitable[FileImport]]
"""Function that imports one file or run into a collection and reports its progress."""


class CollectionImport(Frozen):
    collection: Collection
    imports: dict[str, FileImport]
    """Results of the imports, keyed by the name of the file or run."""
    passed_over: dict[str, str]
    """Reasons why files without runs were skipped in folders that the user named, keyed by file name."""


async def import_all(
    workspace: Workspace,
    paths: Sequence[str],
    begin: Callable[[str], ShowImport],
    *,
    collection: str | None = None,
    collection_id: str | None = None,
    provider: str | None = None,
    model: str | None = None,
    experiment: str | None = None,
    map: Mapping[str, str] | None = None,
    threshold: float | None = None,
    tasks: Path | None = None,
    reference_run: Path | None = None,
    dry_run: bool = False,
) -> CollectionImport:
    """Import all files and runs that the user named.

    Nothing is stored if a file that the user named directly contains no runs.

    Args:
        workspace: Workspace whose store receives the runs.
        paths: Files, folders of files, addresses or ids of runs, or `sample`.
        begin: Called with the name of a file or run before it is imported; returns a function that receives the
            progress.
        collection: Name of the collection; None for the configured collection, or else a collection named after the
            first path.
        collection_id: Id of the collection; None for an id derived from the collection's name.
        provider: Provider of the runs; None for the provider that the file or the store states.
        model: Model of the runs; None as for `provider`.
        experiment: Experiment of the runs; None as for `provider`.
        map: Names of the columns of results tables, keyed by field; None for the workspace's option.
        threshold: Lowest score that passes; None for the workspace's option, or else 1.
        tasks: Folder of the tasks that were run; None for the workspace's option.
        reference_run: Run whose answers are the reference answers; None for the workspace's option.
        dry_run: True to only read and count. Nothing is stored and no store is created.

    Raises:
        EvalscribeError: A named file contains no runs, or the store cannot be used.
    """
    overrides = run_overrides(
        workspace,
        provider=provider,
        model=model,
        experiment=experiment,
        map=map,
        threshold=threshold,
        tasks=tasks,
        reference_run=reference_run,
    )
    async with _readers(workspace, dry_run=dry_run) as readers:
        items = [item for path in paths for item in _import_items(workspace, path, overrides, readers, dry_run=dry_run)]
        # `workspace.store` creates a store if there is none, which a dry run must not do.
        collection_store = workspace.store.collections if workspace.has_store or not dry_run else None
        passed_over: dict[str, str] = {}
        # All files are opened before the first is imported, so that nothing is stored if one of them contains no runs.
        opened_items = _open_items(items, passed_over)
        target = _collection(
            collection_store.collections() if collection_store else (),
            collection,
            collection_id,
            configured=workspace.settings.collection.value,
            otherwise=collection_name(paths[0]),
        )
        results: dict[str, FileImport] = {}

        async def import_item(opened_item: tuple[_ImportItem, ImportFunction]) -> None:
            item, import_one = opened_item
            try:
                results[item.name] = await import_one(target, begin(item.name))
            except DataError as error:
                _pass_over(item, error, passed_over)

        with rare_garbage_collection():
            await run_concurrently(opened_items, import_item, workspace.settings.concurrency.value if readers else 1)
    imports = {item.name: results[item.name] for item, _ in opened_items if item.name in results}
    if not imports:
        raise DataError("\n".join(["none of the files contains runs:", *list(passed_over.values())[:3]]))
    return CollectionImport(collection=target, imports=imports, passed_over=passed_over)


def _collection(
    collections: Sequence[Collection],
    name: str | None,
    collection_id: str | None,
    *,
    configured: str | None,
    otherwise: str,
) -> Collection:
    if configured and not name and not collection_id:
        existing = next(
            (collection for collection in collections if configured in (collection.id, collection.name)), None
        )
        return existing or plan_collection(collections, None, configured, otherwise)
    return plan_collection(collections, name, collection_id, otherwise)


@dataclass(frozen=True)
class _ImportItem:
    """A file or run to import."""

    name: str
    open: Callable[[], ImportFunction]
    """Open the file, and return the function that imports it. Raises `EvalscribeError` if it contains no runs."""
    named: bool = True
    """True if the user named the file itself. A file in a named folder is skipped if it contains no runs."""


def _open_items(items: Sequence[_ImportItem], passed_over: dict[str, str]) -> list[tuple[_ImportItem, ImportFunction]]:
    opened_items = []
    for item in items:
        try:
            opened_items.append((item, item.open()))
        except DataError as error:
            _pass_over(item, error, passed_over)
    return opened_items


def _pass_over(item: _ImportItem, error: DataError, passed_over: dict[str, str]) -> None:
    if item.named:
        raise error
    passed_over[item.name] = str(error)


def _import_items(
    workspace: Workspace, path: str, overrides: RunOverrides, readers: "Readers | None", *, dry_run: bool
) -> Iterator[_ImportItem]:
    """Yield the files and runs that `path` names. Raises `EvalscribeError` if there are none."""
    file_path = Path(path)
    of_file = partial(_file, workspace, overrides=overrides, readers=readers, dry_run=dry_run)
    of_run = partial(_run, workspace, overrides=overrides, dry_run=dry_run)
    if path == SAMPLE:
        yield _ImportItem(name=path, open=partial(of_file, checkpoints_file()))
    elif _is_run(path, file_path) or file_path.name == SUMMARY:
        yield _ImportItem(name=path, open=partial(of_run, path))
    elif file_path.is_dir():
        for file in run_files(file_path):
            is_snapshot = (file / SUMMARY).is_file() or file.name == SUMMARY
            opens = partial(of_run, str(file)) if is_snapshot else partial(of_file, file, in_folder=True)
            yield _ImportItem(name=str(file), open=opens, named=file == file_path)
    else:
        yield _ImportItem(name=path, open=partial(of_file, file_path))


def _is_run(path: str, file_path: Path) -> bool:
    """Return whether `path` is the address of a run on a deployment, or an id that cannot be a path."""
    try:
        exists = file_path.exists()
    # Raised, for example, if the name is too long for a path.
    except (OSError, ValueError):
        exists = False
    return not exists and ("://" in path or not ("/" in path or "." in path))


def _stores(workspace: Workspace, *, dry_run: bool) -> "tuple[RunStore | None, CollectionStore | None]":
    return (None, None) if dry_run else (workspace.store.runs, workspace.store.collections)


def _file(
    workspace: Workspace,
    path: Path,
    *,
    overrides: RunOverrides,
    readers: "Readers | None",
    dry_run: bool,
    in_folder: bool = False,
) -> ImportFunction:
    run_store = workspace.store.runs if workspace.has_store else None
    file = open_file(run_store, path, overrides, in_folder=in_folder)
    absolute_path = path.resolve()

    async def import_one(collection: Collection, show: ShowImport) -> FileImport:
        if readers is None:
            run_store, collection_store = _stores(workspace, dry_run=dry_run)
            result = await import_file(
                run_store, collection_store, file.records, collection, show, overridden=overrides.names_set
            )
            return result.model_copy(update={"recognised_by": file.why})
        piece = FilePiece(path=absolute_path, overrides=file.overrides, collection=collection)
        result = await _read_in_worker(readers, piece)
        show(sum(result.statuses.values()), 1.0)
        return result.model_copy(update={"recognised_by": file.why})

    return import_one


def _run(workspace: Workspace, path: str, *, overrides: RunOverrides, dry_run: bool) -> ImportFunction:
    overrides.require_used((), f"{path} is a run")

    async def import_one(collection: Collection, show: ShowImport) -> FileImport:
        run_store, collection_store = _stores(workspace, dry_run=dry_run)
        try:
            async with open_source(workspace, path) as source:
                return await import_source(run_store, collection_store, source, collection, show)
        except NotFoundError as error:
            raise NotFoundError(f"{error} (and file {path!r} not found)", fields=error.fields) from None

    return import_one


class FilePiece(Frozen):
    """A file that a worker reads and imports."""

    path: Path
    """Absolute path of the file, because a worker can run in another folder."""
    overrides: RunOverrides
    collection: Collection


Readers = WorkerPool[FilePiece, FileImport]


@dataclass(frozen=True)
class Importer:
    """Factory of workers that import files. The workers receive the store's address, including its password."""

    store_place: Path | str | None
    """Folder or address of the store; None to store nothing."""
    version: str = __version__

    @asynccontextmanager
    async def __call__(self, ask: AskParent) -> AsyncIterator[Worker[FilePiece, FileImport]]:  # noqa: ARG002
        from evalscribe.store.store import open_storage

        with ExitStack() as stack:
            stack.enter_context(rare_garbage_collection())
            run_store, collection_store = None, None
            if self.store_place is not None:
                store = stack.enter_context(closing(open_storage(self.store_place)))
                run_store, collection_store = store.runs, store.collections

            async def import_one(piece: FilePiece) -> FileImport:
                file = open_file(run_store, piece.path, piece.overrides, in_folder=True)  # already validated
                return await import_file(
                    run_store,
                    collection_store,
                    file.records,
                    piece.collection,
                    show_nothing,
                    overridden=piece.overrides.names_set,
                )

            yield import_one


def show_nothing(_evals: int, _progress: float) -> None:
    """Ignore the progress of an import."""


@asynccontextmanager
async def _readers(workspace: Workspace, *, dry_run: bool) -> AsyncIterator[Readers | None]:
    """Open workers that read files. Yields None if files are to be read in this process.

    Raises `UsageError` if the workers cannot reach the store.
    """
    engine = workspace.open_engine()
    if engine.name == LOCAL:
        yield None
        return
    settings = workspace.settings
    store_place = None if dry_run else settings.store_place
    if isinstance(store_place, Path) and settings.ray_address.value is not None:
        raise UsageError(
            "the store is a folder on this machine, which workers on other machines cannot reach: "
            "set EVALSCRIBE_STORE_URL to a store that all of them can reach"
        )
    try:
        async with engine.pool(Importer(store_place)) as readers:
            yield readers
    finally:
        await engine.close()


async def _read_in_worker(readers: Readers, piece: FilePiece) -> FileImport:
    """Read a file in a worker, and return the result of its import. Raises `UnavailableError` if the worker dies."""
    result = await readers(piece)
    if isinstance(result, LostWork):
        raise UnavailableError(f"{piece.path} could not be read: {result.reason}")
    return result
