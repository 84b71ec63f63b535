"""Applying a recommendation, as things are set."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

from evalscribe.app.reports.apply import ApplyDesk
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.ports import Model, Models, Repository
from evalscribe.prompts import Prompts
from evalscribe.settings import RULES, Options, Settings
from evalscribe.wiring import Calendar, checkpoints, library, settings, store
from evalscribe.wiring.forge import repository as repository_of
from evalscribe.wiring.models import models

STAGE = "propose"


class ApplyChoice(Frozen):
    """What the command line chose: in which repository, whether anew, and the settings it gave."""

    repo: Path
    fresh: bool = False
    """Whether what was proposed before is proposed anew."""
    options: Options = Options()


@asynccontextmanager
async def open_apply(choice: ApplyChoice, shared: Models | None = None) -> AsyncIterator[ApplyDesk]:
    """All that applying works with, closed at the end. Raises `UsageError` for a folder outside git.

    `shared`: models that others ask too, out of one budget; they stay open.
    """
    found = settings(choice.options)
    async with AsyncExitStack() as opened:
        repository = opened.enter_context(closing(_repository(choice.repo)))
        asked = shared or models(found)
        if shared is None:
            opened.push_async_callback(asked.close)
        yield ApplyDesk(
            library=library(found),
            store=opened.enter_context(closing(store(found))),
            clock=Calendar(),
            repository=repository,
            model=lambda: _model(found, asked),
            prompts=Prompts(found.root),
            checkpoints=checkpoints(found),
            spent=asked.spent,
            within=_within(choice.repo, repository.root),
        )


def _repository(folder: Path) -> Repository:
    try:
        return repository_of(folder)
    except UsageError as error:
        said = str(error).removesuffix(".")
        raise UsageError(f"{said}.\nThe eval suite's folder is named with --repo DIR.") from error


def _within(folder: Path, root: Path) -> str:
    """Empty for the root, and where the work tree lies elsewhere (`core.worktree`)."""
    folder, root = folder.resolve(), root.resolve()
    return "" if folder == root or not folder.is_relative_to(root) else folder.relative_to(root).as_posix()


def _model(found: Settings, asked: Models) -> Model:
    name = found.judge_name
    if name == RULES:
        raise UsageError(
            "the rules cannot write a patch: name a model with --judge PROVIDER/MODEL, or set ANTHROPIC_API_KEY"
        )
    return asked.open(name, STAGE)
