"""What a client can attach: reports, schemas, and pages of the documentation."""

import json
from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.resources import FunctionResource, Resource
from mcp.types import Resource as Listed

from evalscribe.errors import EvalscribeError
from evalscribe.mcp_server.place import Place
from evalscribe.mcp_server.queries import Queries
from evalscribe.redaction.redact import redact

MARKDOWN, JSON = "text/markdown", "application/json"
REPORTS = "report://{+name}"
PAGES = {
    "mcp": "the tools, set up for editors",
    "sql": "SQL over a collection",
    "collections": "import and what is understood",
    "experiments": "what is tried, on which items, how it is scored and gated",
    "compare": "what a comparison says, and whether it is noise",
    "explore": "one question over a whole collection",
    "rubrics": "how rubrics are written",
    "judges": "who judges, and what it costs",
    "report": "what a report says",
    "review": "how people correct reports",
    "sdk": "questions over a collection from a script",
}
"""Pages that help whoever works with these tools."""
MOST_LISTED = 1000
"""Reports."""


@dataclass(frozen=True)
class Resources:
    place: Place

    def fixed(self) -> list[Resource]:
        schemas = {
            "sql": ("Tables and columns of execute_sql, with examples", self._sql),
            "report": ("JSON Schema of an analysis", _report_schema),
            "rubric": ("JSON Schema of a rubric's YAML file", _rubric_schema),
        }
        made = [
            FunctionResource(uri=f"schema://{name}", name=f"schema-{name}", description=about, mime_type=JSON, fn=fn)
            for name, (about, fn) in schemas.items()
        ]
        pages = [
            FunctionResource(uri=f"docs://{name}", name=name, description=about, mime_type=MARKDOWN, fn=_Page(name))
            for name, about in PAGES.items()
            if _Page(name).there
        ]
        return [*made, *pages]

    def report(self, name: str) -> str:
        """A report, or another document of the reports folder, by its name below it."""
        from evalscribe.app.reports.reading import below

        try:
            return redact(below(self.place.library(), name).text)
        except EvalscribeError as error:
            raise ResourceNotFoundError(str(error)) from None

    def reports(self) -> list[Listed]:
        try:
            names = sorted(file.name for file in self.place.library().all())
        except EvalscribeError:
            return []  # whoever reads one is told why
        return [Listed(uri=f"report://{name}", name=name, mime_type=MARKDOWN) for name in names[:MOST_LISTED]]

    def _sql(self) -> str:
        return Queries(self.place).sql_schema().model_dump_json(indent=2)


@dataclass(frozen=True)
class _Page:
    name: str

    @property
    def there(self) -> bool:
        from evalscribe.prompts.templates import shipped_folder

        return (shipped_folder("docs") / f"{self.name}.md").is_file()

    def __call__(self) -> str:
        from evalscribe.prompts.templates import shipped_folder

        return (shipped_folder("docs") / f"{self.name}.md").read_text("utf-8")


def _report_schema() -> str:
    from evalscribe.model.analysis import Analysis

    return _json(Analysis.model_json_schema(mode="serialization"))


def _rubric_schema() -> str:
    from evalscribe.rubric_file import file_schema

    return _json(file_schema())


def _json(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2)
