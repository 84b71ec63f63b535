"""Implements `evalscribe explore QUESTION`."""

from typing import Annotated

import typer

from evalscribe.cli import options
from evalscribe.cli.interrupts import run_until_signal
from evalscribe.cli.judge import print_spent
from evalscribe.cli.output import aside, hint, page, print_json, say
from evalscribe.cli.terminal import paying_workspace
from evalscribe.collections.explorations import ExplorationResult
from evalscribe.collections.explorations import explore as use_case
from evalscribe.model.protocols import Estimate


def explore(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question about the runs.", show_default=False)],
    collection: options.Collection = None,
    where: options.Where = None,
    judge: options.Judge = None,
    max_runs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Maximum number of agent runs to read.", show_default=False)
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask the model again instead of using stored answers.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the estimated cost; call no model and write nothing.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write a page to the reports folder (on by default).")
    ] = True,
    reports: options.Reports = None,
    concurrency: options.Concurrency = None,
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = None,
    yes: options.Yes = False,
    env_file: options.EnvFile = None,
    as_json: options.Json = False,
) -> int:
    """Answer a question about a collection of runs, with quotations."""
    command_options = options.workspace_options(locals())

    async def main() -> int:
        async with paying_workspace(command_options) as (workspace, display):
            try:
                result = await use_case(
                    workspace,
                    question,
                    display,
                    collection=collection,
                    where=where,
                    max_runs=max_runs,
                    dry_run=dry_run,
                    writes=report,
                )
            finally:
                print_spent(workspace.models.spent())
        return print_exploration(result, as_json=as_json)

    return run_until_signal(main())


def print_exploration(result: ExplorationResult, *, as_json: bool) -> int:
    """Print the page and its location, or only the JSON document."""
    tell = aside if as_json else say
    if result.exploration is None:
        if as_json:
            print_json(result.estimate or Estimate())
        estimate = (
            f"{result.estimate.summary}, less for stored answers" if result.estimate else "nothing: rules call no model"
        )
        tell(f"Estimate: {estimate}.")
        return 0
    if as_json:
        print_json(result.exploration)
    else:
        page(result.text)
        say()
    if result.put is None:
        tell("No report was written.")
        return 0
    if result.put.note:
        (aside if as_json else hint)(f"Note: {result.put.note}")
    tell(f"Report: {result.put.path} ({result.put.state})")
    return 0
