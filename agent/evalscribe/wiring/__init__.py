"""Settings to ports: the only module that names adapters. Each is imported where it is chosen."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.app.desk import Desk
from evalscribe.app.doctor import Attempt
from evalscribe.errors import AccessError, NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.judging.rules import RulesJudge
from evalscribe.ports import Judge, Library, Model, Store
from evalscribe.prompts import Prompts
from evalscribe.settings import Options, Settings, load
from evalscribe.sources.address import RunAddress, parse_address

if TYPE_CHECKING:
    from evalscribe.sources.payload_source import PayloadSource
    from evalscribe.sources.snapshot import SnapshotWriter

SAMPLE = "sample"
"""The RUN that ships with the package."""
RULES = "rules"
DEFAULT_MODEL = "anthropic/claude-opus-5-5"
CHECKPOINTS = "checkpoints.db"


class Choice(Frozen):
    """What the command line chose: which run, how to reach it, and the settings it gave."""

    run: str
    via: str = "http"
    convex_dir: Path | None = None
    writes: bool = False
    """Whether the command may write into the reports folder."""
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

    return open_store(found.store)


def attempts(found: Settings) -> dict[str, Attempt]:
    """What `doctor` tries; nothing of it is paid for."""
    return {
        "store": lambda: _store_opens(found),
        "Convex": lambda: _convex_answers(found),
        "Anthropic": lambda: _anthropic_answers(found),
    }


async def _store_opens(found: Settings) -> str:
    store(found).close()
    return f"{found.store} can be written"


async def _convex_answers(found: Settings) -> str:
    """Asks for a run that cannot be: only a function that ran knows no such run, so the key may ask."""
    from evalscribe.sources.convex import Patience, open_convex
    from evalscribe.sources.links import Links

    access = found.convex()
    runs = open_convex(access.url, access.key, "doctor", Links(), Patience(attempts=1, whole=20))
    try:
        await runs.run()
    except NotFoundError:
        pass
    finally:
        await runs.close()
    return f"{access.url} answers{' and takes the key' if access.key else ', without a key'}"


async def _anthropic_answers(found: Settings) -> str:
    from evalscribe.llm.anthropic import AnthropicModel

    access = found.anthropic()
    if access is None or access.key is None:
        raise AccessError("no ANTHROPIC_API_KEY: the rules judge")
    model = AnthropicModel(DEFAULT_MODEL.partition("/")[2], access.key.get_secret_value(), access.url, timeout_s=20)
    try:
        await model.check()
    finally:
        await model.close()
    return f"{access.url} answers and takes the key"


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
    model = _model(found)
    reports = library(found)
    async with AsyncExitStack() as opened:
        if model:
            opened.push_async_callback(model.close)
        prompts = Prompts(found.root if model else None)
        runs = await opened.enter_async_context(open_source(choice, found))
        kept = opened.enter_context(closing(store(found)))
        if choice.run == SAMPLE and choice.writes:
            _add_sample_reports(reports)
        yield Desk(
            source=runs,
            store=kept,
            library=reports,
            judge=_model_judge(model, prompts) if model else RulesJudge(),
            clock=Calendar(),
            checkpoints=found.store / CHECKPOINTS,
            concurrency=found.concurrency.value,
            adviser=None if model else _adviser(),
            own_prompts=model is not None and bool(prompts.own("classify")),
        )


def _model(found: Settings) -> Model | None:
    """The model that judges, within the budget; None where the rules do. Raises `EvalscribeError` for a bad choice."""
    name = found.judge.value or (DEFAULT_MODEL if found.anthropic() else RULES)
    if name == RULES:
        return None
    provider, _, model = name.partition("/")
    if provider != "anthropic" or not model:
        raise UsageError(f"--judge {name} is not known: rules, or anthropic/<model> such as {DEFAULT_MODEL}")
    access = found.anthropic()
    if access is None or access.key is None:
        raise AccessError(
            f"{name} needs a key: set ANTHROPIC_API_KEY (environment, .env.local or .env)\n"
            "or let the rules judge, without key and network: --judge rules"
        )
    return _within_budget(name, access.key.get_secret_value(), access.url, found)


def _within_budget(name: str, key: str, url: str, found: Settings) -> Model:
    from evalscribe.llm.anthropic import AnthropicModel
    from evalscribe.llm.budget import Budget, Budgeted
    from evalscribe.llm.prices import price
    from evalscribe.llm.retry import Persistent

    cost, tokens = price(name), found.max_tokens.value
    if cost is None and tokens is None:
        raise UsageError(f"{name} has no price here, so a budget in dollars cannot hold: give --max-tokens N")
    budget = Budget(usd=found.budget.value if cost else None, tokens=tokens)
    return Persistent(Budgeted(AnthropicModel(name.partition("/")[2], key, url, cost), budget, cost))


def _model_judge(model: Model, prompts: Prompts) -> Judge:
    from evalscribe.judging.classifier import ModelJudge
    from evalscribe.llm.prices import price

    cost = price(model.id)
    return ModelJudge(model, prompts, cost=cost.cost if cost else None)


def _adviser() -> Judge:
    """What the default model would take; it has no key and is never asked."""
    from evalscribe.llm.anthropic import AnthropicModel

    return _model_judge(AnthropicModel(DEFAULT_MODEL.partition("/")[2], key=""), Prompts())


def _add_sample_reports(reports: Library) -> None:
    """The sample's history, where it is not there yet."""
    from evalscribe.sample import earlier_reports

    there = {report.name for report in reports.all()}
    for name, text in earlier_reports():
        if name not in there:
            reports.write(name, text)
