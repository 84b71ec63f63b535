"""What a comparison works with, as things are set."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from evalscribe.app.collections.choice import planned
from evalscribe.app.collections.importing import ImportDesk, ImportWatcher, import_file
from evalscribe.app.comparisons.compare import CompareDesk
from evalscribe.app.comparisons.sides import Rooms
from evalscribe.app.judging.judges import Made
from evalscribe.app.judging.subjects import Finder
from evalscribe.app.watcher import Watcher
from evalscribe.ids import Frozen
from evalscribe.judge_result import JudgeResult
from evalscribe.judging.rubric.judge import RubricJudge
from evalscribe.ports import Archive, Models, Shelf
from evalscribe.run import Run
from evalscribe.settings import Options, Settings
from evalscribe.sources.imports import Wish, open_records
from evalscribe.wiring import library, settings
from evalscribe.wiring.analysts import Bench
from evalscribe.wiring.judges import Maker
from evalscribe.wiring.judging import JudgeChoice, Reached
from evalscribe.wiring.models import RULES, judge_name, models
from evalscribe.wiring.naming import collection_name
from evalscribe.wiring.runs import of_experiment
from evalscribe.wiring.stores import archive, shelf, store

REGRESSION, BEHAVIOURS = "regression", "behaviours"
"""The rubrics."""


class CompareChoice(Frozen):
    collection: str | None = None
    asks: bool = True
    """Whether a model may be asked why."""
    fresh: bool = False
    via: str = "http"
    convex_dir: Path | None = None
    options: Options = Options()


class Watching(Watcher, ImportWatcher, Protocol):
    """Hears of what is read and of what is judged."""


@dataclass(frozen=True)
class _Judges:
    """`app.compare_why.Judges`."""

    regression: RubricJudge
    behaviours: RubricJudge
    lanes: int
    known: Callable[[JudgeResult], bool]

    def knew(self, result: JudgeResult) -> bool:
        return self.known(result)


@asynccontextmanager
async def open_compare(choice: CompareChoice, watcher: Watching) -> AsyncIterator[CompareDesk]:
    """Closed at the end. Raises `EvalscribeError` where the judge cannot be asked, before anything is read."""
    found = settings(choice.options)
    async with AsyncExitStack() as opened:
        asked = models(found)
        opened.push_async_callback(asked.close)
        books = opened.enter_context(closing(shelf(found)))
        kept = opened.enter_context(closing(store(found)))
        whole = opened.enter_context(closing(archive(found)))
        judges = _judges(choice, found, books, asked, watcher)
        reached = JudgeChoice(rubric=REGRESSION, via=choice.via, convex_dir=choice.convex_dir, options=choice.options)
        rooms = Rooms(
            store=kept,
            archive=whole,
            shelf=books,
            library=library(found),
            finder=Finder(kept, Reached(reached, found, opened), watcher),
            bring=partial(_brought, books, whole, watcher),
            of_experiment=partial(of_experiment, found, whole),
            collection=choice.collection,
            configured=found.collection.value,
        )
        yield CompareDesk(rooms=rooms, judges=judges, spent=asked.spent)


def _judges(choice: CompareChoice, found: Settings, books: Shelf, asked: Models, watcher: Watcher) -> _Judges | None:
    """None where the rules judge."""
    name = judge_name(found)
    if name == RULES or not choice.asks:
        return None
    bench = Bench(found, asked, lambda: books)
    made = Made(books)
    maker = Maker(asked, bench.prompts, made, fresh=choice.fresh)
    regression, behaviours = (maker.by_model(bench.rubric(rubric), name) for rubric in (REGRESSION, BEHAVIOURS))
    for note in bench.notes:
        watcher.say(note)
    return _Judges(regression, behaviours, found.concurrency.value, made.knew)


async def _brought(books: Shelf, whole: Archive, watcher: Watching, path: Path) -> tuple[Run, ...]:
    """The runs of a file, in the collection named after it."""
    records = open_records(path, Wish())
    collection = planned(books.collections(), None, None, collection_name(str(path)))
    done = await import_file(ImportDesk(whole, books), records, collection, watcher)
    if done.stopped:
        watcher.say(f"{path} was not read to its end: {done.stopped}")
    return done.runs
