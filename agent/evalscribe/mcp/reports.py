"""MCP tools that read reports and the results of SDK requests."""

from collections import Counter
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from evalscribe.collections.requests import complete_results, count_results, list_result_sets, result_set_named
from evalscribe.errors import NotFoundError
from evalscribe.ids import Frozen
from evalscribe.mcp import tool
from evalscribe.mcp.context import ServerWorkspace
from evalscribe.mcp.tool import NOTICE, TextPage, first_fitting, page_of, text_page
from evalscribe.model.result import ResultLine, ResultSetSummary
from evalscribe.redaction.redact import redact
from evalscribe.reports.reading import find_stored_report, list_reports
from evalscribe.reports.recurring import (
    RecurringEvals,
    RecurringRow,
    SharedFailure,
    SharedFailures,
    load_shared_failures,
    recurring_evals,
)
from evalscribe.workspace import Workspace

Models = Annotated[
    list[str] | None, Field(description=("Only reports on these models, as `provider/model`. Default: all."))
]
MOST_CHARACTERS = 60_000
"""Maximum total number of characters of the rows in one answer."""


class ReportLine(Frozen):
    name: str
    """Name of the report, for the tool get_report and the resource `report://<name>`."""
    provider: str | None = None
    model: str | None = None
    run_id: str | None = None
    revision: int | None = None
    """Number of the report's revision; null for a page that people wrote in free form."""
    labels: dict[str, int] = Field(default_factory=dict)
    """Number of failures with each label."""
    problem: str | None = None
    """Reason why the page cannot be parsed as a report; null if it can."""


class ReportList(Frozen):
    reports: tuple[ReportLine, ...]
    total: int
    next_offset: int | None


class ReportText(TextPage):
    name: str
    notice: str = NOTICE


class RecurringFailures(Frozen):
    rows: tuple[RecurringRow | SharedFailure, ...]
    """Evals that a model fails repeatedly.

    With the argument `across_models`, evals that several models fail in the same way.
    """
    total: int
    next_offset: int | None
    notes: tuple[str, ...] = ()


class ResultSetList(Frozen):
    collection: str
    sets: tuple[ResultSetSummary, ...]


class ResultList(Frozen):
    result_set: ResultSetSummary
    results: tuple[ResultLine, ...]
    total: int
    next_offset: int | None
    notice: str = NOTICE.replace("`text`", "What `results` quote")


@dataclass(frozen=True)
class ReportTools:
    server_workspace: ServerWorkspace

    def list_reports(
        self,
        model: Annotated[str | None, Field(description="Only reports on this model, as `provider/model`.")] = None,
        limit: tool.Limit = 100,
        offset: tool.Offset = 0,
    ) -> ReportList:
        """List the reports of this workspace: model, run, and the number of failures by label.

        Comparisons and other documents are not listed; get_report reads them by the name that compare returns.
        """
        reports = list_reports(self.server_workspace.reports(), model)
        page, next_offset = page_of(reports, offset, limit)
        lines = []
        for report in page:
            analysis = report.analysis
            labels = Counter(finding.classification or "no label" for finding in analysis.findings) if analysis else {}
            facts = (
                {"provider": analysis.run.provider, "model": analysis.run.model, "run_id": analysis.run.id}
                if analysis
                else {}
            )
            revision = analysis.revision if analysis else None
            lines.append(
                ReportLine(name=report.name, revision=revision, labels=dict(labels), problem=report.problem, **facts)
            )
        return ReportList(reports=tuple(lines), total=len(reports), next_offset=next_offset)

    def get_report(
        self,
        name: Annotated[
            str,
            Field(
                min_length=1,
                description="A name below the reports folder, or a run: id, its first characters, or name.",
            ),
        ],
        offset: tool.At = 0,
        characters: tool.Characters = 20_000,
    ) -> ReportText:
        """Read a report, a comparison or another document in the reports folder as markdown, in pages."""
        with Workspace() as workspace:
            file = find_stored_report(workspace, name)
        return ReportText(name=file.name, **text_page(redact(file.text), offset, characters).model_dump())

    def recurring(
        self,
        models: Models = None,
        across_models: Annotated[
            bool, Field(description="Evals that several models fail in the same way: evidence against the eval.")
        ] = False,
        minimum: Annotated[
            int, Field(ge=2, description="With across_models: how many models must fail an eval in the same way.")
        ] = 2,
        limit: tool.Limit = 50,
        offset: tool.Offset = 0,
    ) -> RecurringFailures:
        """List the evals that fail repeatedly, from all reports. Each eval is listed with the date since
        which it has failed, its labels and causes, the actions taken, and whether the fixes held.
        """
        with Workspace() as workspace:
            store = workspace.store.analyses if workspace.has_store else None
            failures: RecurringEvals | SharedFailures
            if not across_models:
                failures = recurring_evals(workspace.reports, models or (), store)
            elif store:
                failures = load_shared_failures(workspace.reports, store, models or (), minimum)
            else:
                raise NotFoundError("there are no stored runs to compare: call analyze on several runs first")
        page, next_offset = page_of(failures.rows, offset, limit)
        return RecurringFailures(
            rows=tuple(page), total=len(failures.rows), next_offset=next_offset, notes=failures.notes
        )

    def list_result_sets(
        self,
        collection: tool.Collection = None,
        prefix: Annotated[str | None, Field(description="Only result sets below this name; names are paths.")] = None,
    ) -> ResultSetList:
        """List result sets of SDK requests (Client.submit_llm_requests) with the progress of each."""
        with self.server_workspace.collection_of(collection) as (workspace, chosen_collection):
            sets = list_result_sets(workspace.store.results, chosen_collection, prefix)
        return ResultSetList(collection=chosen_collection.id, sets=tuple(ResultSetSummary.of(*entry) for entry in sets))

    def get_results(
        self,
        name: Annotated[str, Field(min_length=1, description="Name or id of a result set.")],
        collection: tool.Collection = None,
        include_incomplete: Annotated[
            bool, Field(description="Include requests without an answer, with the error.")
        ] = False,
        limit: tool.Limit = 50,
        offset: tool.Offset = 0,
    ) -> ResultList:
        """Read the results of a set: each answer with its citations and whether they were verified."""
        with self.server_workspace.collection_of(collection) as (workspace, chosen_collection):
            result_set = result_set_named(workspace.store.results, chosen_collection, name)
            results = complete_results(workspace.store.results, result_set, include_incomplete=include_incomplete)
            line = ResultSetSummary.of(result_set, count_results(workspace.store.results, result_set))
        lines = [ResultLine.of(result) for result in results[offset : offset + limit]]
        fitting_lines = first_fitting(lines, MOST_CHARACTERS)
        end = offset + len(fitting_lines)
        return ResultList(
            result_set=line,
            results=fitting_lines,
            total=len(results),
            next_offset=end if fitting_lines and end < len(results) else None,
        )
