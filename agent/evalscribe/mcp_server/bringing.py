"""The tool that brings runs into a collection."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver import Context
from pydantic import Field

from evalscribe.engine import LOCAL
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.mcp_server.place import SAMPLE, Place
from evalscribe.mcp_server.progress import Told, watched

if TYPE_CHECKING:
    from evalscribe.app.import_all import ImportedAll


class ImportedRun(Frozen):
    id: str
    provider: str
    model: str
    passed: int
    failed: int
    total: int


class ImportedFile(Frozen):
    name: str
    format: str
    runs: tuple[ImportedRun, ...]
    new: int
    changed: int
    same: int
    """Evals; of a dry run none is counted."""
    left_out: dict[str, int]
    """What the file holds and an eval has no place for, and how often."""
    stopped: str | None
    """Why the file was not read to its end; what stands before it is kept."""


class Imported(Frozen):
    collection: str
    """Its id."""
    written: bool
    message: str
    files: tuple[ImportedFile, ...]
    passed_over: dict[str, str]


@dataclass(frozen=True)
class Bringing:
    place: Place

    async def import_file(
        self,
        path: Annotated[
            str,
            Field(min_length=1, description="A file or folder inside the workspace, or `sample` for two small runs."),
        ],
        ctx: Context,
        write: Annotated[
            bool, Field(description="Store it. Default: false, which only reads and counts what would come in.")
        ] = False,
        collection: Annotated[
            str | None,
            Field(description="The collection's name; made where it is not there. Default: the file's name."),
        ] = None,
        provider: Annotated[str | None, Field(description="The provider, where the file does not say.")] = None,
        model: Annotated[
            str | None, Field(description="The model (or provider/model), where the file does not say.")
        ] = None,
        experiment: Annotated[str | None, Field(description="Only runs of one experiment are compared.")] = None,
    ) -> Imported:
        """Bring a file of runs into a collection: tau-bench trajectories, Inspect logs, JUnit XML, JSON lines, agent
        runs. Without write=true it is only read and counted. Importing twice adds nothing."""
        from evalscribe.app.import_all import import_all
        from evalscribe.settings import Options
        from evalscribe.workspace import Workspace

        if "://" in path:
            raise UsageError("a URL is not imported for an agent: ask a person to run `evalscribe import URL`")
        inside = path if path == SAMPLE else self.place.inside(path)

        async def work(told: Told) -> Imported:
            with Workspace(Options(engine=LOCAL, collection=self.place.collection)) as workspace:
                done = await import_all(
                    workspace,
                    [inside],
                    told,
                    collection=collection,
                    provider=provider,
                    model=model,
                    experiment=experiment,
                    dry_run=not write,
                )
            return _answer(done, written=write)

        return await watched(ctx, work)


def _answer(done: "ImportedAll", *, written: bool) -> Imported:
    stored = "Stored; ask it with list_evals, execute_sql or analyze." if written else "Nothing was stored."
    return Imported(
        collection=done.collection.id,
        written=written,
        message=stored if written else f"{stored} Call again with write=true.",
        files=tuple(
            ImportedFile(
                name=name,
                format=one.format,
                runs=tuple(
                    ImportedRun(**{field: getattr(run, field) for field in ImportedRun.model_fields})
                    for run in one.runs
                ),
                **one.added.model_dump(),
                left_out=one.left_out,
                stopped=one.stopped,
            )
            for name, one in done.imports.items()
        ),
        passed_over=done.passed_over,
    )
