"""What imports, exports and collections work with."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from evalscribe.app.collections.import_all import Bring, Given
from evalscribe.app.collections.importing import ImportDesk, Imported, ImportWatcher, import_file, import_source
from evalscribe.app.runs import SAMPLE, collection_name, open_source
from evalscribe.errors import NotFoundError
from evalscribe.ids import Frozen
from evalscribe.ports import Archive, Shelf
from evalscribe.record import Record
from evalscribe.rubric import Collection
from evalscribe.run import Run
from evalscribe.settings import Options, Settings
from evalscribe.sources.imports import Wish
from evalscribe.wiring import workspace_of
from evalscribe.wiring.import_afar import FilePiece, Readers, read_afar
from evalscribe.wiring.stores import has_store, shelf

__all__ = ["ImportChoice", "Wish", "collection_name", "given", "import_desk", "shelves", "written"]


class ImportChoice(Frozen):
    """What the command line chose."""

    paths: tuple[str, ...]
    wish: Wish = Wish()
    options: Options = Options()


@contextmanager
def shelves(found: Settings) -> Iterator[tuple[Shelf, Archive]]:
    """The collections and the archive of their runs, closed at the end."""
    from evalscribe.wiring.stores import archive

    with ExitStack() as stack:
        collections = stack.enter_context(closing(shelf(found)))
        yield collections, stack.enter_context(closing(archive(found)))


@contextmanager
def import_desk(found: Settings, *, dry_run: bool) -> Iterator[ImportDesk]:
    """Of a dry run without an archive; and where there is no store it makes none."""
    if not dry_run:
        with shelves(found) as (collections, archive):
            yield ImportDesk(archive, collections)
    elif has_store(found):
        with closing(shelf(found)) as collections:
            yield ImportDesk(None, collections)
    else:
        yield ImportDesk(None)


def written() -> Callable[[Run | Record], str]:
    """How an export writes a run or an eval: one line."""
    from evalscribe.sources.imports.export_lines import written as line

    return line


def given(choice: ImportChoice, found: Settings, crew: Readers | None = None) -> Sequence[Given]:
    """Every file of what was named, to be read by this crew; what is no path names a run. Raises `EvalscribeError`."""
    return [one for path in choice.paths for one in _given(path, choice, found, crew)]


def _given(path: str, choice: ImportChoice, found: Settings, crew: Readers | None) -> Iterator[Given]:
    from evalscribe.sample import checkpoints_file
    from evalscribe.sources.address import SUMMARY
    from evalscribe.sources.imports.folder import files

    place = Path(path)
    if path == SAMPLE:
        yield Given(name=path, open=partial(_file, checkpoints_file(), choice.wish, crew))
    elif _is_run(path, place):
        yield Given(name=path, open=lambda: partial(_run, path, found))
    elif place.name == SUMMARY:
        yield Given(name=path, open=partial(_run_of, path, found))
    elif place.is_dir():
        for file in files(place):
            whole = file.is_dir() or file.name == SUMMARY
            yield Given(
                name=str(file),
                open=partial(_run_of, str(file), found) if whole else partial(_file, file, choice.wish, crew),
                named=file == place,
            )
    else:
        yield Given(name=path, open=partial(_file, place, choice.wish, crew))


def _is_run(path: str, place: Path) -> bool:
    """Whether this names a run of a deployment: an address, or an id that is no path."""
    try:
        there = place.exists()
    except (OSError, ValueError):
        there = False
    return not there and ("://" in path or not ("/" in path or "." in path))


def _file(path: Path, wish: Wish, crew: Readers | None) -> Bring:
    from evalscribe.sources.imports import open_records

    records = open_records(path, wish)
    if crew is not None:
        return partial(_by_crew, crew, path.resolve(), wish)
    return lambda desk, collection, watcher: import_file(desk, records, collection, watcher, said=wish.said)


async def _by_crew(
    crew: Readers,
    path: Path,
    wish: Wish,
    _: ImportDesk,
    collection: Collection,
    watcher: ImportWatcher,
) -> Imported:
    """Who reads it stores it, too."""
    done = await read_afar(crew, FilePiece(path=path, wish=wish, collection=collection))
    watcher.imported(sum(done.statuses.values()), 1.0)
    return done


def _run_of(path: str, found: Settings) -> Bring:
    return partial(_run, path, found)


async def _run(
    path: str, found: Settings, desk: ImportDesk, collection: Collection, watcher: ImportWatcher
) -> Imported:
    try:
        with workspace_of(found) as workspace:
            async with open_source(workspace, path) as source:
                return await import_source(desk, source, collection, watcher)
    except NotFoundError as error:
        raise NotFoundError(f"{error} (and there is no file {path!r})") from None
