"""Judges of subjects at the command line, and where subjects come from."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evalscribe.app.collections.choice import chosen
from evalscribe.app.collections.selection import picked
from evalscribe.app.collections.stored_runs import is_whole
from evalscribe.app.judging.builder import JudgeBuilder
from evalscribe.app.judging.judges import ByCascade, ByRubric, ByRules, LoadedJudge, Made, Maker
from evalscribe.app.judging.members import waiting
from evalscribe.app.judging.subjects import Address, Finder, Waiting
from evalscribe.app.judging.workers import afar
from evalscribe.app.rubrics import DEFAULT_COLLECTION, parsed_name
from evalscribe.app.runs import address, source
from evalscribe.app.watcher import Watcher
from evalscribe.chat import Usage
from evalscribe.errors import EvalscribeError, NotFoundError
from evalscribe.ids import Frozen
from evalscribe.judge_result import JudgeResult
from evalscribe.ports import Shelf, Source
from evalscribe.rubric import Rubric
from evalscribe.settings import RULES, Options
from evalscribe.sources.stored import StoredSource
from evalscribe.wiring.querying import open_query_desk
from evalscribe.workspace import Workspace

CASCADE = "cascade"
BATCH_LANES = 10_000
"""Subjects that wait for batches together; each is held in memory meanwhile."""


class JudgeChoice(Frozen):
    """What the command line chose: by which rubric, who judges, and how runs are reached."""

    rubric: str
    collection: str = DEFAULT_COLLECTION
    """Whose rubric, by name or id; where it has none of that name, one of everybody's."""
    fresh: bool = False
    batch: bool = False
    """Whether calls wait for a Message Batch: half the price, and an answer within a day."""
    via: str = "http"
    convex_dir: Path | None = None
    options: Options = Options()


@dataclass(frozen=True)
class Room:
    """All that judging works with, closed at the end."""

    rubric: Rubric
    judge: Callable[[str | None], LoadedJudge]
    """`rules`, `cascade`, `provider/model`, or None for the rubric's own model. Raises `EvalscribeError`."""
    knew: Callable[[JudgeResult], bool]
    finder: Callable[[Watcher], Finder]
    members: Callable[[str | None, str | None], Mapping[str, Waiting]]
    """Of a collection by name or id those agent runs that fit a condition, by id. Raises `EvalscribeError`."""
    spent: Callable[[], Mapping[str, Usage]]
    concurrency: int
    notes: Callable[[], tuple[str, ...]]
    """What there is to say of the rubrics that were asked for so far."""


@asynccontextmanager
async def open_room(choice: JudgeChoice) -> AsyncIterator[Room]:
    given = {name: getattr(choice, name) for name in ("via", "convex_dir", "batch", "fresh")}
    async with AsyncExitStack() as opened:
        workspace = await opened.enter_async_context(Workspace(choice.options.model_copy(update=given)))
        workers = await opened.enter_async_context(afar(workspace))
        bench = JudgeBuilder(workspace, workers)
        rubric = _rubric(choice, bench, workspace.shelf)
        made = Made(workspace.shelf)
        hear = workers.hear if workers else None
        maker = Maker(workspace.models, workspace.prompts, made, fresh=choice.fresh, batch=choice.batch, hear=hear)
        yield Room(
            rubric=rubric,
            judge=Judges(rubric, bench, maker).loaded,
            knew=made.knew,
            finder=lambda watcher: Finder(workspace.store, Reached(workspace, opened), watcher),
            members=partial(_members, workspace),
            spent=workspace.models.spent,
            concurrency=BATCH_LANES if choice.batch else workspace.settings.concurrency.value,
            notes=lambda: bench.notes,
        )


def _rubric(choice: JudgeChoice, bench: JudgeBuilder, books: Shelf) -> Rubric:
    if choice.collection == DEFAULT_COLLECTION:
        return bench.rubric(choice.rubric)
    own = chosen(books, choice.collection, None)
    try:
        return books.rubric(own.id, *parsed_name(choice.rubric))
    except EvalscribeError as error:
        with suppress(NotFoundError):
            return bench.rubric(choice.rubric)
        raise error from None


def _members(workspace: Workspace, collection: str | None, where: str | None) -> Mapping[str, Waiting]:
    which = chosen(workspace.shelf, collection, workspace.settings.collection.value)
    with open_query_desk(workspace.settings) as desk:
        members = picked(desk, which.id, where)
    if not members:
        fits = " fits the condition" if where else ""
        raise NotFoundError(f"no agent run of collection {which.name!r}{fits}: there is nothing to judge")
    return waiting(members, workspace.archive, workspace.store)


@dataclass(frozen=True)
class Judges:
    """The judges of one rubric, by what the command line calls them."""

    rubric: Rubric
    bench: JudgeBuilder
    maker: Maker

    def loaded(self, name: str | None) -> LoadedJudge:
        if name == RULES:
            return ByRules(self.rubric, self.maker.results)
        if name == CASCADE:
            return ByCascade(self.bench.subjects(self.rubric, self.maker.judge))
        return ByRubric(self.maker.by_model(self.rubric, name))


class Reached:
    """`app.subjects.Runs`, as things are set; every source is closed with the rest."""

    def __init__(self, workspace: Workspace, opened: AsyncExitStack) -> None:
        self._workspace = workspace
        self._opened = opened

    def address(self, name: str) -> Address:
        named = address(name)
        return Address(run_id=named.run_id, eval_id=named.eval_id, is_id=named.kind == "id")

    def source(self, name: str) -> Source:
        runs = source(self._workspace, name)
        self._opened.push_async_callback(runs.close)
        return runs

    def imported(self, run_id: str) -> Source | None:
        whole = self._workspace.archive
        return StoredSource(self._workspace.store, whole, run_id) if is_whole(whole, run_id) else None
