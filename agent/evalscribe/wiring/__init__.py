"""Settings to ports: the only module that names adapters. Each is imported where it is chosen."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.app.analysis.desk import Desk
from evalscribe.app.collections.stored_runs import Arrivals
from evalscribe.graph.deps import TIMEOUT_S
from evalscribe.ports import Library
from evalscribe.prompts import Prompts
from evalscribe.settings import Options, Settings, load
from evalscribe.sources.imports.wish import Wish as FileWish
from evalscribe.wiring.importing import SAMPLE
from evalscribe.wiring.models import models, purse
from evalscribe.wiring.runs import Choice, address, eval_named, open_run, open_source, source
from evalscribe.wiring.shelf import shelf
from evalscribe.wiring.stores import checkpoints, has_store, store

if TYPE_CHECKING:
    from evalscribe.sources.snapshot import SnapshotWriter

__all__ = [
    "SAMPLE",
    "Calendar",
    "Choice",
    "FileWish",
    "address",
    "checkpoints",
    "eval_named",
    "has_store",
    "library",
    "open_desk",
    "open_source",
    "settings",
    "snapshot_writer",
    "source",
    "store",
]
BATCH_LANES = 500
"""Failures whose questions wait for the same batch."""


class Calendar:
    """`ports.Clock` of this machine."""

    def today(self) -> date:
        return date.today()


def settings(options: Options) -> Settings:
    return load(options, Path.cwd(), os.environ)


def library(found: Settings) -> Library:
    from evalscribe.library import ReportsFolder

    return ReportsFolder(found.reports.value)


def snapshot_writer(folder: Path, run_id: str) -> "SnapshotWriter":
    from evalscribe.sources.snapshot import SnapshotWriter

    return SnapshotWriter(folder, run_id)


@asynccontextmanager
async def open_desk(choice: Choice, watcher: Arrivals) -> AsyncIterator[Desk]:
    """All that an analysis works with, closed at the end."""
    from evalscribe.wiring.analysts import Bench, adviser
    from evalscribe.wiring.engine import afar

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
        runs = await opened.enter_async_context(open_run(choice, found, watcher))
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
