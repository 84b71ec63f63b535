"""A discussion at the command line: the report, the store, and who answers."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass

from evalscribe.app.reports.discuss import Discussion
from evalscribe.app.reports.reading import found as report_called
from evalscribe.errors import AccessError
from evalscribe.ids import Frozen
from evalscribe.llm.prices import cost_of
from evalscribe.ports import Model, Models
from evalscribe.prompts import Prompts
from evalscribe.settings import RULES, Options, Settings
from evalscribe.wiring import library, settings, store
from evalscribe.wiring.models import models

STAGE = "discuss"


class DiscussChoice(Frozen):
    """What the command line chose: which report, and the settings it gave."""

    report: str
    spent_usd: float = 0.0
    """What the same command spent before, out of the same budget."""
    spent_tokens: int = 0
    options: Options = Options()


@dataclass(frozen=True)
class Table:
    """All that a discussion works with, closed at the end."""

    discussion: Discussion
    models: Models
    """Which are asked, out of one budget."""
    options: Options
    """What the command line gave."""


@asynccontextmanager
async def open_discussion(choice: DiscussChoice) -> AsyncIterator[Table]:
    """Raises `EvalscribeError` where there is no such report, or no way to ask the model that was named."""
    found = _what_is_left(settings(choice.options), choice)
    async with AsyncExitStack() as opened:
        file = report_called(library(found), choice.report)
        asked = models(found)
        opened.push_async_callback(asked.close)
        model = _model(found, asked)
        kept = opened.enter_context(closing(store(found)))
        cost = cost_of(model) if model else None
        budget = _budget(found)
        discussion = Discussion(file, kept, Prompts(found.root), model, cost=cost, budget=budget)
        yield Table(discussion, asked, choice.options)


def _model(found: Settings, asked: Models) -> Model | None:
    name = found.judge_name
    if name == RULES:
        return None
    try:
        return asked.open(name, STAGE)
    except AccessError as error:
        raise AccessError(f"{error}\nor search report and evidence without a model: --judge rules") from None


def _what_is_left(found: Settings, choice: DiscussChoice) -> Settings:
    usd = max(0.0, found.budget.value - choice.spent_usd)
    bound = found.max_tokens.value
    tokens = None if bound is None else max(0, bound - choice.spent_tokens)
    return found.model_copy(
        update={
            "budget": found.budget.model_copy(update={"value": usd}),
            "max_tokens": found.max_tokens.model_copy(update={"value": tokens}),
        }
    )


def _budget(found: Settings) -> str:
    tokens = f" and {found.max_tokens.value:,} tokens" if found.max_tokens.value is not None else ""
    return f"at most ${found.budget.value:g}{tokens} in all"
