"""What a comparison works with, as things are set."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from evalscribe.app.collections.choice import planned
from evalscribe.app.collections.importing import ImportDesk, ImportWatcher, import_file
from evalscribe.app.comparisons.compare import CompareDesk
from evalscribe.app.comparisons.sides import Rooms
from evalscribe.app.judging.builder import JudgeBuilder
from evalscribe.app.judging.judges import Made, Maker
from evalscribe.app.judging.subjects import Finder
from evalscribe.app.runs import collection_name, of_experiment
from evalscribe.app.watcher import Watcher
from evalscribe.ids import Frozen
from evalscribe.judge_result import JudgeResult
from evalscribe.judging.rubric.judge import RubricJudge
from evalscribe.ports import Archive, Shelf
from evalscribe.run import Run
from evalscribe.settings import RULES, Options
from evalscribe.sources.imports import Wish, open_records
from evalscribe.wiring.judging import Reached
from evalscribe.workspace import Workspace

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
    given = {name: getattr(choice, name) for name in ("via", "convex_dir", "fresh")}
    async with AsyncExitStack() as opened:
        workspace = await opened.enter_async_context(Workspace(choice.options.model_copy(update=given)))
        judges = _judges(choice, workspace, watcher)
        rooms = Rooms(
            store=workspace.store,
            archive=workspace.archive,
            shelf=workspace.shelf,
            library=workspace.reports,
            finder=Finder(workspace.store, Reached(workspace, opened), watcher),
            bring=partial(_brought, workspace.shelf, workspace.archive, watcher),
            of_experiment=partial(of_experiment, workspace),
            collection=choice.collection,
            configured=workspace.settings.collection.value,
        )
        yield CompareDesk(rooms=rooms, judges=judges, spent=workspace.models.spent)


def _judges(choice: CompareChoice, workspace: Workspace, watcher: Watcher) -> _Judges | None:
    """None where the rules judge."""
    name = workspace.settings.judge_name
    if name == RULES or not choice.asks:
        return None
    bench = JudgeBuilder(workspace)
    made = Made(workspace.shelf)
    maker = Maker(workspace.models, workspace.prompts, made, fresh=choice.fresh)
    regression, behaviours = (maker.by_model(bench.rubric(rubric), name) for rubric in (REGRESSION, BEHAVIOURS))
    for note in bench.notes:
        watcher.say(note)
    return _Judges(regression, behaviours, workspace.settings.concurrency.value, made.knew)


async def _brought(books: Shelf, whole: Archive, watcher: Watching, path: Path) -> tuple[Run, ...]:
    """The runs of a file, in the collection named after it."""
    records = open_records(path, Wish())
    collection = planned(books.collections(), None, None, collection_name(str(path)))
    done = await import_file(ImportDesk(whole, books), records, collection, watcher)
    if done.stopped:
        watcher.say(f"{path} was not read to its end: {done.stopped}")
    return done.runs
