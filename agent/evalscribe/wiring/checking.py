"""What `reports check` works with: the reports, and every place where evidence may be at hand."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

from evalscribe import wiring
from evalscribe.app.reports.check import CheckDesk
from evalscribe.app.reports.proofs import NOWHERE, Proofs
from evalscribe.errors import EvalscribeError, UsageError
from evalscribe.ports import Source, Store
from evalscribe.settings import Options, Settings
from evalscribe.sources.links import Links
from evalscribe.sources.snapshot import open_snapshot

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@asynccontextmanager
async def open_check(
    options: Options, evidence: Sequence[Path] = (), *, fetch: bool = False, shown_from: Path
) -> AsyncIterator[CheckDesk]:
    """`evidence`: snapshot folders. A store is opened where there is one already, made only to keep what is fetched."""
    found = wiring.settings(options)
    async with AsyncExitStack() as opened:
        store, trouble = _store(found, opened, make=fetch)
        snapshots = [await _snapshot(folder, opened) for folder in evidence]
        shipped = [await _snapshot(_sample(), opened)]
        yield CheckDesk(
            library=wiring.library(found),
            root=found.reports.value,
            shown_from=shown_from,
            proofs=Proofs(
                given=snapshots,
                store=store,
                shipped=shipped,
                fetch=_Deployment(found) if fetch else None,
                lacking=trouble or NOWHERE,
            ),
            store=store,
        )


def _store(found: Settings, opened: AsyncExitStack, *, make: bool) -> tuple[Store | None, str | None]:
    """The store, or why there is none to be had: no reason to call a report wrong."""
    if not make and not wiring.has_store(found):
        return None, None
    try:
        return opened.enter_context(closing(wiring.store(found))), None
    except EvalscribeError as error:
        return None, str(error)


async def _snapshot(folder: Path, opened: AsyncExitStack) -> Source:
    source = open_snapshot(folder, Links())
    opened.push_async_callback(source.close)
    return source


def _sample() -> Path:
    from evalscribe.sample import snapshot_folder

    return snapshot_folder()


class _Deployment:
    """Opens a run at the deployment. A report names the run, so that nothing but an id may reach the source."""

    def __init__(self, found: Settings) -> None:
        self._found = found

    @asynccontextmanager
    async def __call__(self, run_id: str) -> AsyncIterator[Source]:
        if not _RUN.fullmatch(run_id):
            raise UsageError("its run is no id of a deployment's")
        from evalscribe.sources.convex import open_convex

        access = self._found.convex()
        source = open_convex(access.url, access.key, run_id, Links())
        try:
            yield source
        finally:
            await source.close()
