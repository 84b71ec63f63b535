"""Open the workspace of the server. Agents can only read files inside the workspace."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.collections.lookup import choose_collection
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.model.rubric import Collection
from evalscribe.settings import Options, Settings
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.git.report_folder import ReportsFolder

NOTHING_YET = (
    "there is no collection yet: call import_file with a file of runs (or `sample`) and write=true; analyze alone "
    "creates none"
)
NO_EXPERIMENT = (
    "there is no experiment yet: run_experiment with experiment `sample` and start=true creates a sample, `evalscribe "
    "experiments create` a new one"
)
NO_SAMPLE = (
    "the sample experiment does not exist yet: start=true creates it (20 questions to a small agent) and runs it"
)
SAMPLE = "sample"


@dataclass(frozen=True)
class ServerWorkspace:
    """The workspace of the server. The settings are read again for each call of a tool."""

    collection: str | None = None
    """Name or id of the collection that is used if a call does not name one."""

    def settings(self, options: Options | None = None) -> Settings:
        return Workspace(options).settings

    def reports(self) -> "ReportsFolder":
        return Workspace().reports

    def has_store(self) -> bool:
        return Workspace().has_store

    @contextmanager
    def stored(self) -> Iterator[Workspace]:
        """Open the workspace for reading.

        Raises `NotFoundError` if there is no store. No store is created.
        """
        with Workspace() as workspace:
            if not workspace.has_store:
                raise NotFoundError(NOTHING_YET)
            yield workspace

    @contextmanager
    def experiments(self, options: Options | None = None) -> Iterator[Workspace]:
        """Open the workspace to work with experiments. Raises `NotFoundError` if there is no store."""
        with Workspace(options) as workspace:
            if not workspace.has_store:
                raise NotFoundError(NO_EXPERIMENT)
            yield workspace

    def require_sample(self) -> None:
        """Raise `NotFoundError` if the sample experiment does not exist."""
        with self.experiments() as workspace:
            if workspace.store.experiments.experiment(SAMPLE) is None:
                raise NotFoundError(NO_SAMPLE)

    @contextmanager
    def collection_of(self, name: str | None) -> Iterator[tuple[Workspace, Collection]]:
        """Open the collection with this id or name.

        Without a name, open the server's default collection, otherwise the configured collection, otherwise the only
        collection.
        """
        with self.stored() as workspace:
            yield workspace, choose_collection(workspace, name or self.collection)

    def run(self, name: str) -> str:
        """Return the name unchanged, after checking that it is not a file or folder outside of the workspace.

        A name that is not an existing path, such as the id of a run, is accepted. Raises `UsageError` if the name is a
        file or folder outside of the workspace.
        """
        return name if self._path(name) is None else self.inside(name)

    def inside(self, name: str) -> str:
        """Return the path unchanged.

        Raises `NotFoundError` if the path does not exist, and `UsageError` if it is outside of the workspace.
        """
        path = self._path(name)
        if path is None:
            raise NotFoundError(f"file {name!r} not found in {self.settings().root}")
        root = self.settings().root.resolve()
        # Links are resolved first, because a link inside the workspace can lead out of it.
        if not path.resolve().is_relative_to(root):
            raise UsageError(f"{name} is outside the workspace {root}: agents can read only files inside it")
        return name

    @staticmethod
    def _path(name: str) -> Path | None:
        """Return the name as a path; None if no file or folder has that path."""
        try:
            return Path(name) if name != SAMPLE and Path(name).exists() else None
        # Raised, for example, if the name is too long for a path.
        except (OSError, ValueError):
            return None
