"""The working folder with the settings, store and models that use cases need.

Settings, store and models are opened when they are first used. Only this module imports the modules that open the store
and the models. The imports are inside properties and methods. A command that only lists runs therefore loads neither an
LLM SDK nor LangGraph.
"""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from evalscribe.prompts.templates import Prompts
from evalscribe.settings import Options, Settings, load
from evalscribe.settings.access import without_key
from evalscribe.settings.consent import Consent

if TYPE_CHECKING:
    from evalscribe.git.report_folder import ReportsFolder
    from evalscribe.llm.budget import Budget
    from evalscribe.model.protocols import Engine, Models, Tables
    from evalscribe.store.store import Storage

log = logging.getLogger(__name__)
DATABASE = "store.db"
CHECKPOINTS = "checkpoints.db"


class Workspace:
    """Settings, store, reports, prompts, models and engine of one folder.

    ```
    async with Workspace(Options(judge="rules")) as workspace:
        await analyze(workspace, "sample", watcher)
    ```

    `with` closes the store at the end. `async with` also closes the models, so it is required if models are called.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        checkpoints: Path | None = None,
        ask: Callable[[str], bool] | None = None,
    ) -> None:
        """Store the arguments; open nothing yet.

        Args:
            options: The caller's options; they override every configured setting.
            folder: Folder where settings are looked up; None for the current directory.
            environ: Environment variables; None for those of this process.
            checkpoints: File for LangGraph's checkpoints. If None, they are stored in a file beside the store or, if
                the store is on a server, on that server.
            ask: Function that asks the user for consent before a model is called, and returns True if the user agrees.
                If `ask` is None, nobody is asked. A model is then called only if the options or the environment name
                it, or if the option `yes` is set.
        """
        self.options = options or Options()
        self.folder = folder or Path.cwd()
        self._environ = os.environ if environ is None else environ
        self._checkpoints = checkpoints
        self._ask = ask
        self._estimates_only = False
        self._opened = ExitStack()
        self._opened_async = AsyncExitStack()

    @cached_property
    def settings(self) -> Settings:
        """Load the settings from the options, the environment and the folder's files.

        Raises:
            UsageError: A setting is invalid.
            NotFoundError: A named file does not exist.
        """
        settings = load(self.options, self.folder, self._environ)
        log.info("settings of %s: reports in %s", settings.root, settings.reports.value)
        return settings

    @cached_property
    def prompts(self) -> "Prompts":
        """The prompt templates. Templates in the workspace override the templates of the package."""

        return Prompts(self.settings.root)

    @cached_property
    def reports(self) -> "ReportsFolder":
        """The reports folder and its git history."""
        from evalscribe.git.report_folder import ReportsFolder

        return ReportsFolder(self.settings.reports.value)

    @property
    def has_store(self) -> bool:
        """True if a store exists.

        Commands that only read check this first, because opening a missing store would create it. A store on a server
        is assumed to exist, because the user named it.
        """
        place = self.settings.store_place
        return not isinstance(place, Path) or (place / DATABASE).is_file()

    @cached_property
    def store(self) -> "Storage":
        """The stores of all kinds of objects, in one database. Raises the same errors as `open_storage`."""
        from evalscribe.store.store import open_storage

        place = self.settings.store_place
        log.info("open the store: %s", place if isinstance(place, Path) else "a database server")
        store = open_storage(place)
        self._opened.callback(store.close)
        return store

    @cached_property
    def tables(self) -> "Tables":
        """The tables of the store, for SQL queries that users write. Raises `NotFoundError` if there is no store."""
        from evalscribe.store.query.sqlite import open_tables

        tables = open_tables(self.settings.store_place)
        self._opened.callback(tables.close)
        return tables

    @property
    def checkpoints(self) -> Path | str:
        """Where LangGraph's checkpoints are stored: the path of a file, or the address of a database."""
        place = self.settings.store_place
        return self._checkpoints or (place / CHECKPOINTS if isinstance(place, Path) else place)

    @cached_property
    def budget(self) -> "Budget":
        """The limit on the total cost and the total tokens of all model calls."""
        from evalscribe.llm.budget import Budget

        return Budget(self.settings.budget.value, self.settings.max_tokens.value, self.consent)

    @cached_property
    def consent(self) -> Consent:
        """Determines whether the user agrees to calling models, which costs money."""
        if self._estimates_only:
            # Without agreement and without anybody to ask, each call is refused.
            return Consent()
        settings = self.settings
        judges = [settings.judge_name] if settings.user_names_judge else []
        limit = f" (at most ${settings.budget.value:g} in all)"
        return Consent(agreed=self.options.yes, permitted=judges, ask=self._ask, limit=limit)

    def estimate_only(self) -> None:
        """Let models be opened without their keys, for estimates only.

        After that, calling a model raises `ConsentError`.
        """
        self._estimates_only = True

    @cached_property
    def models(self) -> "Models":
        """Access to every model for which the settings have a key, within the budget. Requires `async with`.

        With the option `batch`, each call waits up to a day for the result of a message batch. Callers should therefore
        make many calls at once, and set no time limits.
        """
        models = self.open_models(self.budget)
        self._opened_async.push_async_callback(models.close)
        return models

    def open_models(self, budget: "Budget") -> "Models":
        """Open the same models as `models`, but with another budget. The caller must close the models."""
        from evalscribe.llm.service import ModelService

        intents = self.store.batches if self.options.batch else None
        window = self.settings.context_tokens.value
        provider = without_key if self._estimates_only else self.settings.provider
        return ModelService(provider, budget, context_tokens=window, intents=intents, fresh=self.options.fresh)

    def open_engine(self, name: str | None = None) -> "Engine":
        """Open the named engine, or the configured engine if `name` is None. The caller must close the engine.

        Raises:
            UsageError: The engine does not exist, or its package is missing.
        """
        from evalscribe.remote.engine import open_engine

        return open_engine(self.settings, name)

    def now(self) -> str:
        """Return the current time in the store's format: ISO 8601, UTC, milliseconds."""
        return datetime.now(UTC).isoformat(timespec="milliseconds")

    def close(self) -> None:
        """Close the store."""
        self._opened.close()

    async def aclose(self) -> None:
        """Close the models, then the store."""
        try:
            # Close the models first. With `batch`, they use the store.
            await self._opened_async.aclose()
        finally:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
