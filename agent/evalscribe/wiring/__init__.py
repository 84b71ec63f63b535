"""Settings to ports: the only module that names adapters. Each is imported where it is chosen."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.app.desk import Desk
from evalscribe.errors import UsageError
from evalscribe.graph.deps import TIMEOUT_S
from evalscribe.ids import Frozen
from evalscribe.ports import Library, Store
from evalscribe.prompts import Prompts
from evalscribe.settings import Options, Settings, load
from evalscribe.sources.address import RunAddress, parse_address
from evalscribe.wiring.analysts import Bench, adviser
from evalscribe.wiring.engine import afar
from evalscribe.wiring.models import models, purse
from evalscribe.wiring.shelf import shelf

if TYPE_CHECKING:
    from evalscribe.sources.payload_source import PayloadSource
    from evalscribe.sources.snapshot import SnapshotWriter

SAMPLE = "sample"
"""The RUN that ships with the package."""
DATABASE, CHECKPOINTS = "store.db", "checkpoints.db"
"""Files of a store that is a folder."""
BATCH_LANES = 500
"""Failures whose questions wait for the same batch."""


class Choice(Frozen):
    """What the command line chose: which run, how to reach it, and the settings it gave."""

    run: str
    via: str = "http"
    convex_dir: Path | None = None
    writes: bool = False
    """Whether the command may write into the reports folder."""
    rubric: str | None = None
    """The rubric that failures are judged by, `NAME` or `NAME@VERSION`; None for the one that comes with evalscribe."""
    cascade: bool = False
    fresh: bool = False
    """Whether the stages of a cascade ask again what the store knows."""
    batch: bool = False
    """Whether models are asked through Message Batches."""
    options: Options = Options()


class Calendar:
    """`ports.Clock` of this machine."""

    def today(self) -> date:
        return date.today()


def settings(options: Options) -> Settings:
    return load(options, Path.cwd(), os.environ)


def address(run: str) -> RunAddress:
    """Raises `EvalscribeError` for what names no run."""
    if run == SAMPLE:
        from evalscribe.sample import snapshot_folder

        return RunAddress(kind="snapshot", folder=snapshot_folder())
    return parse_address(run, Path.cwd())


def source(choice: Choice, found: Settings) -> "PayloadSource":
    """The source of the chosen run. Raises `EvalscribeError` where it cannot be reached as things are set."""
    named = address(choice.run)
    links = named.links(found.visualizer.value)
    if named.folder is not None:
        from evalscribe.sources.snapshot import open_snapshot

        return open_snapshot(named.folder, links)
    run_id = named.run_id or ""
    if choice.via == "npx":
        from evalscribe.sources.npx import open_npx

        if choice.convex_dir is None:
            raise UsageError("--via npx needs --convex-dir DIR, the folder in which `npx convex run` works")
        return open_npx(choice.convex_dir, run_id, links)
    if choice.via != "http":
        raise UsageError(f"--via {choice.via} is not known: http or npx")
    from evalscribe.sources.convex import open_convex

    access = found.convex()
    return open_convex(access.url, access.key, run_id, links)


def library(found: Settings) -> Library:
    from evalscribe.library import ReportsFolder

    return ReportsFolder(found.reports.value)


def store(found: Settings) -> Store:
    from evalscribe.store.sql import open_store

    return open_store(found.store_place)


def has_store(found: Settings) -> bool:
    """Whether there is one: reading makes none. One on a server was named by the user."""
    return not isinstance(found.store_place, Path) or (found.store_place / DATABASE).is_file()


def checkpoints(found: Settings) -> Path | str:
    """In a file beside the store's, or in its database."""
    return found.store_place / CHECKPOINTS if isinstance(found.store_place, Path) else found.store_place


@asynccontextmanager
async def open_source(choice: Choice, found: Settings) -> AsyncIterator["PayloadSource"]:
    """The source of the chosen run, closed at the end."""
    runs = source(choice, found)
    try:
        yield runs
    finally:
        await runs.close()


def snapshot_writer(folder: Path, run_id: str) -> "SnapshotWriter":
    from evalscribe.sources.snapshot import SnapshotWriter

    return SnapshotWriter(folder, run_id)


@asynccontextmanager
async def open_desk(choice: Choice) -> AsyncIterator[Desk]:
    """All that an analysis works with, closed at the end."""
    found = settings(choice.options)
    reports = library(found)
    async with AsyncExitStack() as opened:
        budget = purse(found)
        asked = models(found, budget, batch=choice.batch, fresh=choice.fresh)
        opened.push_async_callback(asked.close)
        workers = await opened.enter_async_context(afar(found, budget, Prompts(found.root), batch=choice.batch))
        bench = Bench(
            found, asked, lambda: opened.enter_context(closing(shelf(found))), batch=choice.batch, afar=workers
        )
        chosen = bench.models(cascade=choice.cascade)
        runs = await opened.enter_async_context(open_source(choice, found))
        kept = opened.enter_context(closing(store(found)))
        analyst = bench.analyst(chosen, choice.rubric, kept, fresh=choice.fresh)
        if choice.run == SAMPLE and choice.writes:
            _add_sample_reports(reports)
        yield Desk(
            source=runs,
            store=kept,
            library=reports,
            judge=analyst.judge,
            clock=Calendar(),
            checkpoints=checkpoints(found),
            concurrency=BATCH_LANES if choice.batch else found.concurrency.value,
            timeout_s=None if choice.batch else TIMEOUT_S,
            adviser=None if chosen else adviser(),
            own_prompts=analyst.own_prompts,
            cascade=analyst.cascade,
            spent=asked.spent if chosen else None,
            notes=analyst.notes,
        )


def _add_sample_reports(reports: Library) -> None:
    """The sample's history, where it is not there yet."""
    from evalscribe.sample import earlier_reports

    there = {report.name for report in reports.all()}
    for name, text in earlier_reports():
        if name not in there:
            reports.write(name, text)
