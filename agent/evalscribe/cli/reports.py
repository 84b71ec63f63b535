"""`evalscribe reports list|show|check|parse`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli import options

if TYPE_CHECKING:
    from evalscribe.ports import Library

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
Model = Annotated[str | None, typer.Argument(metavar="[PROVIDER/MODEL]", help="Only reports of this model.")]
Name = Annotated[
    str, typer.Argument(metavar="REPORT", help="A file, a name below the reports folder, or the start of a run id.")
]


@app.command("list")
def list_reports(model: Model = None, reports: options.Reports = None) -> int:
    """List the reports: run, model, and how many evals failed."""
    from evalscribe.app.reports import listed
    from evalscribe.cli import finish

    finish.reports(listed(_library(reports), model))
    return 0


@app.command()
def show(report: Name, reports: options.Reports = None) -> int:
    """Show one report."""
    from evalscribe.app.reports import found
    from evalscribe.cli import finish

    finish.page(found(_library(reports), report).text)
    return 0


@app.command(short_help="Check that reports can be read; exit code 65 if not.")
def check(
    report: Annotated[str | None, typer.Argument(metavar="[REPORT]", help="Only this report. Default: all.")] = None,
    reports: options.Reports = None,
) -> int:
    """Check that reports can be read, and that their corrections do not contradict each other. Exit code 65 if not."""
    from evalscribe.app.reports import check as use_case
    from evalscribe.cli import finish

    return finish.checked(use_case(_library(reports), report))


@app.command(short_help="Read any report, ours or free-form, as one document.")
def parse(report: Name, reports: options.Reports = None, as_json: options.Json = False) -> int:
    """Read any report, ours or free-form, as one document: null where it does not say."""
    from evalscribe.app.reports import found, parsed
    from evalscribe.cli import finish

    finish.document(parsed(found(_library(reports), report)), as_json=as_json)
    return 0


def _library(reports: Path | None) -> "Library":
    from evalscribe import wiring
    from evalscribe.settings import Options

    return wiring.library(wiring.settings(Options(reports=reports)))
