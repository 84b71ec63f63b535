"""Files that an engine's workers read: each reads one whole, and writes what it holds into the store itself.

Reading, redacting and storing cost about the same, so that a store written in one place would be the bound.
"""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from evalscribe import __version__
from evalscribe.app.collections.importing import ImportDesk, Imported, import_file
from evalscribe.app.garbage import seldom_collected
from evalscribe.errors import UnavailableError, UsageError
from evalscribe.ids import Frozen
from evalscribe.ports import Ask, Crew, Lost, Worker
from evalscribe.rubric import Collection
from evalscribe.settings import Settings
from evalscribe.sources.imports import Wish


class FilePiece(Frozen):
    path: Path
    """Absolute: where the workers find it too."""
    wish: Wish
    collection: Collection


Readers = Crew[FilePiece, Imported]


@dataclass(frozen=True)
class Importer:
    """A `ports.Factory`. The store's address crosses to the workers, with its password."""

    place: Path | str | None
    """None: nothing is stored."""
    version: str = __version__

    @asynccontextmanager
    async def __call__(self, ask: Ask) -> AsyncIterator[Worker[FilePiece, Imported]]:  # noqa: ARG002
        from evalscribe.sources.imports import open_records
        from evalscribe.store.archive import open_archive
        from evalscribe.store.shelf import open_shelf

        with ExitStack() as opened:
            opened.enter_context(seldom_collected())
            desk = ImportDesk(None)
            if self.place is not None:
                archive = opened.enter_context(closing(open_archive(self.place)))
                desk = ImportDesk(archive, opened.enter_context(closing(open_shelf(self.place))))

            async def bring(piece: FilePiece) -> Imported:
                records = open_records(piece.path, piece.wish)
                return await import_file(desk, records, piece.collection, Unwatched(), said=piece.wish.said)

            yield bring


class Unwatched:
    """Whoever waits hears of a whole file."""

    def imported(self, evals: int, progress: float) -> None: ...


@asynccontextmanager
async def readers(found: Settings, *, dry_run: bool) -> AsyncIterator[Readers | None]:
    """Workers that read files; None where this process does. Raises `UsageError` for a store they cannot reach."""
    from evalscribe.engine import LOCAL, open_engine

    chosen = open_engine(found)
    if chosen.name == LOCAL:
        yield None
        return
    place = None if dry_run else found.store_place
    if isinstance(place, Path) and found.ray_address.value is not None:
        raise UsageError("workers on other machines need a store that all of them reach: set EVALSCRIBE_STORE_URL")
    try:
        async with chosen.crew(Importer(place)) as crew:
            yield crew
    finally:
        await chosen.close()


async def read_afar(crew: Readers, piece: FilePiece) -> Imported:
    """Raises `UnavailableError` where whoever reads this file dies."""
    done = await crew.do(piece)
    if isinstance(done, Lost):
        raise UnavailableError(f"{piece.path} could not be read: {done.reason}")
    return done
