"""Offer reports, schemas, documentation and prompts to the client."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.resources import FunctionResource, Resource
from mcp.types import Resource as Listed
from pydantic import Field

from evalscribe.errors import EvalscribeError
from evalscribe.judging.rubrics import file_schema
from evalscribe.mcp.collections import QueryTools
from evalscribe.mcp.context import ServerWorkspace
from evalscribe.model.analysis import Analysis
from evalscribe.prompts.templates import Prompts, shipped_folder
from evalscribe.redaction.redact import redact
from evalscribe.reports.reading import find_stored_report
from evalscribe.workspace import Workspace

MARKDOWN, JSON = "text/markdown", "application/json"
# In a URI template (RFC 6570), `{+name}` also matches slashes, which names of reports contain.
REPORTS = "report://{+name}"
PAGES = {
    "mcp": "setting up these tools in editors",
    "sql": "querying a collection in SQL",
    "formats": "files and folders that can be analysed and imported",
    "collections": "importing, and columns of tables",
    "experiments": "targets, datasets, scorers and gates",
    "compare": "reading a comparison, and whether it is noise",
    "explore": "one question about a whole collection",
    "rubrics": "writing rubrics",
    "judges": "available judges, and what they cost",
    "report": "reading a report",
    "review": "correcting reports",
    "sdk": "asking questions about a collection from a script",
}
"""Pages of the documentation that are offered as resources because they help users of the tools."""
MOST_LISTED = 1000
"""Maximum number of reports that are listed as resources."""


@dataclass(frozen=True)
class WorkspaceResources:
    server_workspace: ServerWorkspace

    def fixed(self) -> list[Resource]:
        schemas = {
            "sql": ("Tables and columns of execute_sql, with examples", self._sql),
            "report": ("JSON Schema of an analysis", _report_schema),
            "rubric": ("JSON Schema of a rubric's YAML file", _rubric_schema),
        }
        schema_resources = [
            FunctionResource(
                uri=f"schema://{name}", name=f"schema-{name}", description=description, mime_type=JSON, fn=fn
            )
            for name, (description, fn) in schemas.items()
        ]
        pages = [
            FunctionResource(
                uri=f"docs://{name}", name=name, description=description, mime_type=MARKDOWN, fn=_Page(name)
            )
            for name, description in PAGES.items()
            if _Page(name).exists
        ]
        return [*schema_resources, *pages]

    def report(self, name: str) -> str:
        """Read a report or another document by its name below the reports folder."""
        try:
            with Workspace() as workspace:
                return redact(find_stored_report(workspace, name).text)
        except EvalscribeError as error:
            raise ResourceNotFoundError(str(error)) from None

    def reports(self) -> list[Listed]:
        try:
            names = sorted(file.name for file in self.server_workspace.reports().all())
        except EvalscribeError:
            return []  # reading the resource will show the reason
        return [Listed(uri=f"report://{name}", name=name, mime_type=MARKDOWN) for name in names[:MOST_LISTED]]

    def _sql(self) -> str:
        return QueryTools(self.server_workspace).sql_schema().model_dump_json(indent=2)


@dataclass(frozen=True)
class _Page:
    name: str

    @property
    def exists(self) -> bool:
        return (shipped_folder("docs") / f"{self.name}.md").is_file()

    def __call__(self) -> str:
        return (shipped_folder("docs") / f"{self.name}.md").read_text("utf-8")


def _report_schema() -> str:
    return _json(Analysis.model_json_schema(mode="serialization"))


def _rubric_schema() -> str:
    return _json(file_schema())


def _json(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2)


Question = Annotated[str, Field(description="What to find out. Default: what the failures have in common.")]
Money = Annotated[str, Field(description="Maximum cost of models in US dollars. Default: 0, rules only.")]


@dataclass(frozen=True)
class WorkflowPrompts:
    server_workspace: ServerWorkspace

    def analyze_run(
        self, run: Annotated[str, Field(description="The run: id, URL, or `sample`.")], budget_usd: Money = "0"
    ) -> str:
        """Find out why a run's evals failed, and whose fault it was."""
        return self._page("mcp_server/analyze_run.md.j2", run=run, budget_usd=budget_usd)

    def compare_runs(
        self,
        base: Annotated[str, Field(description="The run or `provider/model` to compare with.")],
        candidate: Annotated[str, Field(description="The run or `provider/model` that may have become worse.")],
        budget_usd: Money = "0",
    ) -> str:
        """Find out what changed between two runs or checkpoints, and why."""
        return self._page("mcp_server/compare_runs.md.j2", base=base, candidate=candidate, budget_usd=budget_usd)

    def triage_collection(
        self,
        collection: Annotated[str, Field(description="The collection. Default: the only one.")] = "",
        question: Question = "What do the failures have in common?",
        budget_usd: Money = "0",
    ) -> str:
        """Find what matters in a large collection before any expensive calls."""
        return self._page(
            "mcp_server/triage_collection.md.j2", collection=collection, question=question, budget_usd=budget_usd
        )

    def write_rubric(
        self,
        behaviour: Annotated[str, Field(description="What judges should look for.")],
        examples: Annotated[str, Field(description="Ids of evals that show it, or that do not.")] = "",
    ) -> str:
        """Write a rubric with which judges find a behaviour, and test it."""
        return self._page("mcp_server/write_rubric.md.j2", behaviour=behaviour, examples=examples)

    def review_report(
        self, report: Annotated[str, Field(description="Name of the report, or a prefix of its run's id.")]
    ) -> str:
        """Check a report's labels against the evidence, and propose corrections."""
        return self._page("mcp_server/review_report.md.j2", report=report)

    def gate_experiment(
        self,
        experiment: Annotated[str, Field(description="The experiment, by name or id, or `sample`.")],
        candidate: Annotated[str, Field(description="The build to test. Default: the current source.")] = "",
        baseline: Annotated[str, Field(description="The run to compare with. Default: the newest that passed.")] = "",
        budget_usd: Money = "0",
    ) -> str:
        """Test a build on a dataset, and decide whether it is good enough."""
        return self._page(
            "mcp_server/gate_experiment.md.j2",
            experiment=experiment,
            candidate=candidate,
            baseline=baseline,
            budget_usd=budget_usd,
        )

    def _page(self, template: str, **values: str) -> str:
        return Prompts(self.server_workspace.settings().root).render(template, **values)
