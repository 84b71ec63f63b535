"""Open the workspace that the server works in, within what an agent may read."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.model.protocols import Library
    from evalscribe.model.rubric import Collection
    from evalscribe.settings import Options, Settings

NOTHING_YET = "there is no collection yet: call import_file with a file of runs (or `sample`) and write=true"
NO_EXPERIMENT = (
    "there is no experiment yet: run_experiment with experiment `sample` and start=true makes one to try, "
    "`evalscribe experiments create` one of the user's own"
)
NO_SAMPLE = "the sample experiment is not made yet: start=true makes it (20 questions to a small agent) and runs it"
SAMPLE = "sample"


@dataclass(frozen=True)
class ServerWorkspace:
    """A workspace as the server was told of it. Settings are read anew for every call."""

    collection: str | None = None
    """The collection that is meant where a call names none."""

    def settings(self, options: "Options | None" = None) -> "Settings":

        return Workspace(options).settings

    def library(self) -> "Library":

        return Workspace().reports

    def has_store(self) -> bool:

        return Workspace().has_store

    @contextmanager
    def stored(self) -> Iterator["Workspace"]:
        """The workspace, to be read. Raises `NotFoundError` where nothing was stored yet: reading makes no store."""

        with Workspace() as workspace:
            if not workspace.has_store:
                raise NotFoundError(NOTHING_YET)
            yield workspace

    @contextmanager
    def experiments(self, options: "Options | None" = None) -> Iterator["Workspace"]:
        """The workspace, to work with experiments. Raises `NotFoundError` where nothing was stored yet."""

        with Workspace(options) as workspace:
            if not workspace.has_store:
                raise NotFoundError(NO_EXPERIMENT)
            yield workspace

    def require_sample(self) -> None:
        """Raises `NotFoundError` where it has not been made yet."""
        with self.experiments() as workspace:
            if workspace.store.experiments.experiment(SAMPLE) is None:
                raise NotFoundError(NO_SAMPLE)

    @contextmanager
    def collection_of(self, named: str | None) -> Iterator[tuple["Workspace", "Collection"]]:
        """The collection of that id or name; else the server's, the configured one or the only one there is."""
        from evalscribe.collections.choice import choose_collection

        with self.stored() as workspace:
            yield workspace, choose_collection(workspace, named or self.collection)

    def run(self, name: str) -> str:
        """The name of a run, where it is one that may be read. Raises `UsageError` for files that are not brought in
        yet, and for paths outside the workspace."""
        path = self._path(name)
        if path is None:
            return name
        if path.is_file() and path.name != "failed_evals.json":
            raise UsageError(f"{name} is a file: bring it in with import_file first, then name its run")
        return self.inside(name)

    def inside(self, name: str) -> str:
        """A path of the workspace. Raises `NotFoundError` or `UsageError`."""
        path = self._path(name)
        if path is None:
            raise NotFoundError(f"there is no file {name!r} in {self.settings().root}")
        root = self.settings().root.resolve()
        if not path.resolve().is_relative_to(root):
            raise UsageError(f"{name} lies outside of the workspace {root}: only what is inside is read for an agent")
        return name

    @staticmethod
    def _path(name: str) -> Path | None:
        """None for what is no path that exists."""
        try:
            return Path(name) if name != SAMPLE and Path(name).exists() else None
        except (OSError, ValueError):
            return None
