"""`evalscribe schema report|rubric|exploration`."""

import json
from typing import Annotated, Any

import typer

from evalscribe.errors import UsageError
from evalscribe.judging.rubrics import file_schema
from evalscribe.model.analysis import Analysis
from evalscribe.model.exploration import Exploration


def schema(
    name: Annotated[str, typer.Argument(metavar="report|rubric|exploration", help="Document to describe.")],
) -> int:
    """Print the JSON Schema of a document: a report, a rubric or an exploration."""
    schemas = {"report": _report, "rubric": _rubric, "exploration": _exploration}
    if name not in schemas:
        raise UsageError(f"there is no schema {name!r}; schemas: {', '.join(schemas)}")
    print(json.dumps(schemas[name](), indent=2))
    return 0


def _report() -> dict[str, Any]:
    return Analysis.model_json_schema(mode="serialization")


def _rubric() -> dict[str, Any]:
    """Return the rubric's schema with the meta-schema of its `output_schema`."""
    return file_schema()


def _exploration() -> dict[str, Any]:
    return Exploration.model_json_schema(mode="serialization")
