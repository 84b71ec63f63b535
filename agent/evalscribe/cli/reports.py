"""`evalscribe reports list|show|check|parse` of analyses; `reports summary|failures|wait|ci|export` of experiments."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli import options, run_reports
from evalscribe.cli import output as finish
from evalscribe.reports.reading import find_report, load_analysis
from evalscribe.settings import Options
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.git.report_folder import ReportsFolder


app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
Model = Annotated[str | None, typer.Argument(metavar="PROVIDER/MODEL", help="Only reports of this model.")]
Name = Annotated[
    str, typer.Argument(metavar="REPORT", help="A file, a name below the reports folder, or the start of a run id.")
]


@app.command("list")
def list_reports(model: Model = None, reports: options.Reports = None) -> int:
    """List the reports of analyses: run, model, and how many evals failed."""
    from evalscribe.reports.reading import list_reports

    finish.print_reports(list_reports(_library(reports), model))
    return 0


@app.command()
def show(report: Name, reports: options.Reports = None) -> int:
    """Show one report of an analysis."""

    finish.page(find_report(_library(reports), report).text)
    return 0


@app.command(short_help="Check reports: readable, in agreement, quotations real; exit code 65 if not.")
def check(
    report: Annotated[
        list[str] | None, typer.Argument(metavar="REPORT", help="Only these reports. Default: all.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="text|github|json",
            help="How to print problems. Default: text, in GitHub Actions github.",
            show_default=False,
        ),
    ] = None,
    evidence: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Compare quotations with this snapshot of a run too.")
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Fetch evidence that is not in the store; needs the deploy key.")
    ] = False,
    comment: Annotated[
        bool, typer.Option("--comment", help="In GitHub Actions: tell the pull request in one comment.")
    ] = False,
    reports: options.Reports = None,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
) -> int:
    """Check that reports can be read, agree with themselves, link to what is there, and quote what the evidence says.

    Exit code 65 for errors; warnings and notices are only told.
    """
    from evalscribe.cli.report_check import print_check  # loads what compares evidence, and a list needs none of it

    given = Options(reports=reports, deployment=deployment, key_file=key_file, env_file=env_file)
    return print_check(given, report or (), output=output, evidence=evidence or (), fetch=fetch, comments=comment)


@app.command(short_help="Read any report, ours or free-form, as one document.")
def parse(report: Name, reports: options.Reports = None, as_json: options.Json = False) -> int:
    """Read any report, ours or free-form, as one document: null where it does not say."""

    finish.document(load_analysis(find_report(_library(reports), report)), as_json=as_json)
    return 0


app.command(short_help="Show what a run of an experiment came to, and its gate.")(run_reports.summary)
app.command(short_help="Show which tries of a run of an experiment did not pass, and why.")(run_reports.failures)
app.command(short_help="Wait for a run of an experiment; exit as its gate says.")(run_reports.wait)
app.command(short_help="Print the gate of a finished run of an experiment; exit as it says.")(run_reports.ci)
app.command(short_help="Write a run of an experiment as csv, json, jsonl, junit, md or html.")(run_reports.export)


def _library(reports: Path | None) -> "ReportsFolder":

    return Workspace(Options(reports=reports)).reports
