"""What an exploration works with, as things are set."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial

from evalscribe.app.collections.choice import chosen
from evalscribe.app.explorations.by_model import Judges
from evalscribe.app.explorations.explore import ExploreDesk
from evalscribe.app.judging.judges import Made, Maker
from evalscribe.explore import FOLDER, answering_rubric, clustering_rubric, observing_rubric
from evalscribe.ids import Frozen
from evalscribe.judge_result import JudgeResult
from evalscribe.judging.rubric.judge import RubricJudge
from evalscribe.ports import Models, Shelf
from evalscribe.prompts import Prompts
from evalscribe.settings import RULES, Options, Settings
from evalscribe.wiring import library, settings
from evalscribe.wiring.models import models
from evalscribe.wiring.querying import open_query_desk
from evalscribe.wiring.stores import archive, shelf, store

OWN_PROMPTS = "The model was asked by the workspace's own prompts."


class ExploreChoice(Frozen):
    collection: str | None = None
    fresh: bool = False
    options: Options = Options()


@dataclass(frozen=True)
class _Judges:
    """`app.explore_by_model.Judges`."""

    name: str
    observer: RubricJudge
    clusterer: RubricJudge
    answerer: RubricJudge
    window: int
    lanes: int
    notes: tuple[str, ...]
    known: Callable[[JudgeResult], bool]

    def knew(self, result: JudgeResult) -> bool:
        return self.known(result)


@asynccontextmanager
async def open_explore(choice: ExploreChoice) -> AsyncIterator[ExploreDesk]:
    """Closed at the end. Raises `EvalscribeError` where the judge cannot be asked, before anything is read."""
    found = settings(choice.options)
    async with AsyncExitStack() as opened:
        asked = models(found)
        opened.push_async_callback(asked.close)
        name = found.judge_name
        if name != RULES:
            asked.open(name, "observe")
        books = opened.enter_context(closing(shelf(found)))
        yield ExploreDesk(
            collection=chosen(books, choice.collection, found.collection.value),
            archive=opened.enter_context(closing(archive(found))),
            store=opened.enter_context(closing(store(found))),
            query=opened.enter_context(open_query_desk(found)),
            library=library(found),
            judges=None if name == RULES else partial(_judges, choice, found, books, asked, name),
            spent=asked.spent,
        )


def _judges(choice: ExploreChoice, found: Settings, books: Shelf, asked: Models, name: str, question: str) -> Judges:
    prompts = Prompts(found.root)
    made = Made(books)
    maker = Maker(asked, prompts, made, fresh=choice.fresh)
    steps = {"observe": observing_rubric, "cluster": clustering_rubric, "answer": answering_rubric}
    observer, clusterer, answerer = (
        maker.judge(rubric(prompts, question), asked.open(name, step)) for step, rubric in steps.items()
    )
    return _Judges(
        name=name,
        observer=observer,
        clusterer=clusterer,
        answerer=answerer,
        window=asked.open(name, "observe").context_tokens,
        lanes=found.concurrency.value,
        notes=(OWN_PROMPTS,) if prompts.own(FOLDER) else (),
        known=made.knew,
    )
