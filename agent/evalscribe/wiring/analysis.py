"""What an analysis works with."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing

from evalscribe.app.analysis.desk import Desk
from evalscribe.app.collections.stored_runs import Arrivals
from evalscribe.graph.deps import TIMEOUT_S
from evalscribe.ports import Library
from evalscribe.prompts import Prompts
from evalscribe.sources.imports.wish import Wish as FileWish
from evalscribe.wiring import Calendar, checkpoints, library, settings, store
from evalscribe.wiring.models import models, purse
from evalscribe.wiring.naming import SAMPLE
from evalscribe.wiring.runs import Choice, eval_named, open_run
from evalscribe.wiring.stores import shelf

__all__ = ["Choice", "FileWish", "eval_named", "open_desk"]
BATCH_LANES = 500
"""Failures whose questions wait for the same batch."""


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
