"""Every command by its name."""

from typing import Annotated

import typer

from evalscribe import __version__
from evalscribe.cli import (
    collections,
    datasets,
    deployments,
    experiments,
    reports,
    results,
    review,
    rubric,
    scorers,
    scores,
    target_prompts,
)
from evalscribe.cli.analyze import analyze
from evalscribe.cli.apply import apply
from evalscribe.cli.compare import compare
from evalscribe.cli.discuss import discuss
from evalscribe.cli.doctor import doctor
from evalscribe.cli.explain import explain
from evalscribe.cli.explore import explore
from evalscribe.cli.exporting import export
from evalscribe.cli.fetch import fetch
from evalscribe.cli.gc import gc
from evalscribe.cli.importing import import_runs
from evalscribe.cli.init import init
from evalscribe.cli.judge import judge
from evalscribe.cli.judge_eval import judge_eval
from evalscribe.cli.mcp import mcp
from evalscribe.cli.publish import publish
from evalscribe.cli.recurring import recurring
from evalscribe.cli.schema import schema
from evalscribe.cli.sql import sql

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"evalscribe {__version__}")
        raise typer.Exit


@app.callback()
def evalscribe(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find out why a model failed an eval run, and whose fault it was."""


app.command()(analyze)
app.command(short_help="Explain one failure in full; nothing is written.")(explain)
app.command(short_help="Compare runs or checkpoints: what changed, is it noise, why.")(compare)
app.command(short_help="Ask a question about a whole collection of runs.")(explore)
app.command(short_help="Discuss a report: ask about it, or search it.")(discuss)
app.command(short_help="Propose a recommended change, commit it after a yes.")(apply)
app.command(short_help="Write a run into a snapshot folder, redacted.")(fetch)
app.command("import", short_help="Bring runs into a collection.")(import_runs)
app.command(short_help="Write runs of a collection as JSON lines.")(export)
app.add_typer(collections.app, name="collections", help="List, show and change collections of runs.")
app.add_typer(datasets.app, name="datasets", help="Make, fill, publish and compare datasets.")
app.command(short_help="Ask a collection in SQL; it only reads.")(sql)
app.add_typer(reports.app, name="reports", help="Reports of analyses, and what runs of experiments came to.")
app.command(short_help="Judge agent runs or failed evals by a rubric.")(judge)
app.command("judge-eval", short_help="Compare judges with the labels that people gave.")(judge_eval)
app.add_typer(results.app, name="results", help="List and show what models answered to requests.")
app.add_typer(review.app, name="review", help="Correct labels; read, count and export corrections.")
app.add_typer(scorers.app, name="scorers", help="Make, list and show scorers of experiments.")
app.add_typer(rubric.app, name="rubric", help="Make, list, show, check and compare rubrics.")
app.command(short_help="Push a report on a branch of its own and open its pull request.")(publish)
app.command(short_help="Show each failing eval over all reports.")(recurring)
app.command(short_help="Serve this workspace to a coding agent over MCP.")(mcp)
app.command(short_help="Write a workspace for people and coding agents.")(init)
app.command(short_help="Forget what nobody needs any more.")(gc)
app.command(short_help="Show what is configured, reachable and missing.")(doctor)
app.command(short_help="Print the JSON Schema of a document.")(schema)
app.add_typer(experiments.app, name="experiments", help="Make, run and compare experiments on datasets.")
app.add_typer(scores.app, name="scores", help="List scores of experiments, and show what they rest on.")
app.add_typer(deployments.app, name="deployments", help="Record builds of components that experiments run.")
app.add_typer(target_prompts.app, name="prompts", help="Make, list and show prompts that experiments run.")
