"""`evalscribe schema report`."""

import json
from typing import Annotated

import typer


def schema(name: Annotated[str, typer.Argument(metavar="report", help="Which schema.")]) -> int:
    """Print the JSON Schema of a document: `report` for what --json prints."""
    from evalscribe.analysis import Analysis
    from evalscribe.errors import UsageError

    if name != "report":
        raise UsageError(f"there is no schema {name!r}; there is: report")
    print(json.dumps(Analysis.model_json_schema(mode="serialization"), indent=2))
    return 0
