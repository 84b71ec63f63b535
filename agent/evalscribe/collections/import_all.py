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

Bring = Callable[[Collection, ShowImport], Awaitable[FileImport]]
"""Function that imports one file or run."""


class CollectionImport(Frozen):
    collection: Collection
    imports: dict[str, FileImport]
    """Results by the name of the imported file or run."""
    passed_over: dict[str, str]
    """Reasons why files inside the named folders were skipped, by the file's name: they contain no runs."""


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
    """Import every file. Nothing is stored if a file that the user named contains no runs.

    Args:
        workspace: Workspace whose store receives the runs.
        paths: Files, folders of files, addresses or ids of runs, or `sample`.
        begin: Called with the name of a file before it is imported; returns a function that receives the progress.
        collection: Name of the collection; None for the configured collection, else one named after the first path.
        collection_id: Id of the collection; None for one derived from its name.
        provider: Provider of runs whose file does not name one.
        model: As `provider`.
        experiment: As `provider`.
        map: Columns of results tables, by field; None for the workspace's option.
        threshold: Lowest score that passes; None for the workspace's option, else 1.
        tasks: Folder of the tasks that were run; None for the workspace's option.
        reference_run: Run whose answers are the reference answers; None for the workspace's option.
        dry_run: Only read and count; store nothing, and create no store.

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
        given = [one for path in paths for one in _given(workspace, path, overrides, readers, dry_run=dry_run)]
        collection_store = workspace.store.collections if workspace.has_store or not dry_run else None
        passed_over: dict[str, str] = {}
        opened = _opened(given, passed_over)
        into = _collection(
            collection_store.collections() if collection_store else (),
            collection,
            collection_id,
            configured=workspace.settings.collection.value,
            otherwise=collection_name(paths[0]),
        )
        found: dict[str, FileImport] = {}

        async def one_file(file: tuple[_Given, Bring]) -> None:
            one, bring = file
            try:
                found[one.name] = await bring(into, begin(one.name))
            except DataError as error:
                _pass_over(one, error, passed_over)

        with rare_garbage_collection():
            await run_concurrently(opened, one_file, workspace.settings.concurrency.value if readers else 1)
    imports = {one.name: found[one.name] for one, _ in opened if one.name in found}
    if not imports:
        raise DataError("\n".join(["none of the files contains runs:", *list(passed_over.values())[:3]]))
    return CollectionImport(collection=into, imports=imports, passed_over=passed_over)


def _collection(
    there: Sequence[Collection], name: str | None, collection_id: str | None, *, configured: str | None, otherwise: str
) -> Collection:
    if configured and not name and not collection_id:
        named = next((one for one in there if configured in (one.id, one.name)), None)
        return named or plan_collection(there, None, configured, otherwise)
    return plan_collection(there, name, collection_id, otherwise)


@dataclass(frozen=True)
class _Given:
    """A file or run to import."""

    name: str
    open: Callable[[], Bring]
    """Open the file. Raises `EvalscribeError` if it contains no runs."""
    named: bool = True
    """True if the user named the file itself; False for a file in a named folder, skipped if it contains no runs."""


def _opened(given: Sequence[_Given], passed_over: dict[str, str]) -> list[tuple[_Given, Bring]]:
    opened = []
    for one in given:
        try:
            opened.append((one, one.open()))
        except DataError as error:
            _pass_over(one, error, passed_over)
    return opened


def _pass_over(one: _Given, error: DataError, passed_over: dict[str, str]) -> None:
    if one.named:
        raise error
    passed_over[one.name] = str(error)


def _given(
    workspace: Workspace, path: str, overrides: RunOverrides, readers: "Readers | None", *, dry_run: bool
) -> Iterator[_Given]:
    """Yield the files and runs that `path` names. Raises `EvalscribeError`."""
    place = Path(path)
    of_file = partial(_file, workspace, overrides=overrides, readers=readers, dry_run=dry_run)
    of_run = partial(_run, workspace, overrides=overrides, dry_run=dry_run)
    if path == SAMPLE:
        yield _Given(name=path, open=partial(of_file, checkpoints_file()))
    elif _is_run(path, place) or place.name == SUMMARY:
        yield _Given(name=path, open=partial(of_run, path))
    elif place.is_dir():
        for file in run_files(place):
            whole = (file / SUMMARY).is_file() or file.name == SUMMARY
            opens = partial(of_run, str(file)) if whole else partial(of_file, file, in_folder=True)
            yield _Given(name=str(file), open=opens, named=file == place)
    else:
        yield _Given(name=path, open=partial(of_file, place))


def _is_run(path: str, place: Path) -> bool:
    """Return whether `path` names a run of a deployment: an address, or an id that is not a path."""
    try:
        there = place.exists()
    except (OSError, ValueError):
        there = False
    return not there and ("://" in path or not ("/" in path or "." in path))


def _parts(workspace: Workspace, *, dry_run: bool) -> "tuple[RunStore | None, CollectionStore | None]":
    return (None, None) if dry_run else (workspace.store.runs, workspace.store.collections)


def _file(
    workspace: Workspace,
    path: Path,
    *,
    overrides: RunOverrides,
    readers: "Readers | None",
    dry_run: bool,
    in_folder: bool = False,
) -> Bring:
    archive = workspace.store.runs if workspace.has_store else None
    opened = open_file(archive, path, overrides, in_folder=in_folder)
    whole_path = path.resolve()

    async def bring(collection: Collection, show: ShowImport) -> FileImport:
        if readers is None:
            archive, collection_store = _parts(workspace, dry_run=dry_run)
            done = await import_file(
                archive, collection_store, opened.records, collection, show, said=overrides.names_set
            )
            return done.model_copy(update={"recognised_by": opened.why})
        piece = FilePiece(path=whole_path, overrides=opened.overrides, collection=collection)
        done = await _read_apart(readers, piece)
        show(sum(done.statuses.values()), 1.0)
        return done.model_copy(update={"recognised_by": opened.why})

    return bring


def _run(workspace: Workspace, path: str, *, overrides: RunOverrides, dry_run: bool) -> Bring:
    overrides.require_used((), f"{path} is a run")

    async def bring(collection: Collection, show: ShowImport) -> FileImport:
        archive, collection_store = _parts(workspace, dry_run=dry_run)
        try:
            async with open_source(workspace, path) as source:
                return await import_source(archive, collection_store, source, collection, show)
        except NotFoundError as error:
            raise NotFoundError(f"{error} (and file {path!r} not found)", fields=error.fields) from None

    return bring


class FilePiece(Frozen):
    """A file that a worker reads."""

    path: Path
    """Absolute path, because a worker may run in another folder."""
    overrides: RunOverrides
    collection: Collection


Readers = WorkerPool[FilePiece, FileImport]


@dataclass(frozen=True)
class Importer:
    """A `Factory` of workers that import files. The store's address, with its password, is sent to the workers."""

    place: Path | str | None
    """Folder or address of the store; None to store nothing."""
    version: str = __version__

    @asynccontextmanager
    async def __call__(self, ask: AskParent) -> AsyncIterator[Worker[FilePiece, FileImport]]:  # noqa: ARG002
        from evalscribe.store.store import open_storage

        with ExitStack() as opened:
            opened.enter_context(rare_garbage_collection())
            archive, collection_store = None, None
            if self.place is not None:
                store = opened.enter_context(closing(open_storage(self.place)))
                archive, collection_store = store.runs, store.collections

            async def bring(piece: FilePiece) -> FileImport:
                opened = open_file(archive, piece.path, piece.overrides, in_folder=True)  # checked by the sender
                return await import_file(
                    archive,
                    collection_store,
                    opened.records,
                    piece.collection,
                    show_nothing,
                    said=piece.overrides.names_set,
                )

            yield bring


def show_nothing(_evals: int, _progress: float) -> None:
    """Ignore the progress of an import."""


@asynccontextmanager
async def _readers(workspace: Workspace, *, dry_run: bool) -> AsyncIterator[Readers | None]:
    """Open workers that read files; None to read in this process.

    Raises `UsageError` for a store that the workers cannot reach.
    """
    engine = workspace.open_engine()
    if engine.name == LOCAL:
        yield None
        return
    settings = workspace.settings
    place = None if dry_run else settings.store_place
    if isinstance(place, Path) and settings.ray_address.value is not None:
        raise UsageError("workers on other machines need a store that all of them reach: set EVALSCRIBE_STORE_URL")
    try:
        async with engine.pool(Importer(place)) as readers:
            yield readers
    finally:
        await engine.close()


async def _read_apart(readers: Readers, piece: FilePiece) -> FileImport:
    """Read a file in a worker. Raises `UnavailableError` if the worker dies."""
    done = await readers(piece)
    if isinstance(done, LostWork):
        raise UnavailableError(f"{piece.path} could not be read: {done.reason}")
    return done
