"""`evalscribe analyze RUN`."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli import options, output
from evalscribe.cli.progress import Display
from evalscribe.errors import UsageError
from evalscribe.interrupts import run_until_signal
from evalscribe.settings import Options
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.analysis.estimates import AnalysisResult


def analyze(
    run: options.RunArgument,
    judge: options.Judge = None,
    rubric: options.Rubric = None,
    cascade: options.Cascade = False,
    batch: options.Batch = False,
    reports: options.Reports = None,
    date: options.Date = None,
    concurrency: options.Concurrency = None,
    engine: options.Engine = None,
    ray_address: options.RayAddress = None,
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = None,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
    via: options.Via = "http",
    convex_dir: options.ConvexDir = None,
    provider: options.Provider = None,
    model: options.Model = None,
    commit: Annotated[bool, typer.Option("--commit", help="Commit the report, and nothing else.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over: ask again what is already known.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be judged, and what it would cost.")
    ] = False,
    as_json: options.Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress and no analysis, only where the report is.")
    ] = False,
    discuss: Annotated[
        bool | None,
        typer.Option(
            "--discuss/--no-discuss", help="Discuss the report at the end. Default: in a terminal.", show_default=False
        ),
    ] = None,
) -> int:
    """Find out why a model failed a run, and whose fault it was."""
    from evalscribe.analysis.analyze import analyze as use_case
    from evalscribe.analysis.estimates import AnalysisPlan, AnalysisResult, NothingFailed
    from evalscribe.analysis.write import commit_report

    if discuss and (as_json or quiet or dry_run):
        raise UsageError("--discuss talks to a person: leave out --json, --quiet and --dry-run")
    checked_date = options.checked_date(date)
    given = Options(
        judge=judge,
        engine=engine,
        ray_address=ray_address,
        budget=budget,
        concurrency=concurrency,
        max_tokens=max_tokens,
        reports=reports,
        deployment=deployment,
        key_file=key_file,
        env_file=env_file,
        via=via,
        convex_dir=convex_dir,
        batch=batch,
        fresh=fresh,
    )

    async def main() -> AnalysisResult | AnalysisPlan | NothingFailed:
        async with Workspace(given) as workspace:
            with Display(quiet=quiet) as display:
                outcome = await use_case(
                    workspace,
                    run,
                    display,
                    rubric=rubric,
                    cascade=cascade,
                    date=checked_date,
                    dry_run=dry_run,
                    provider=provider,
                    model=model,
                )
            try:
                if commit and isinstance(outcome, AnalysisResult):
                    display.say(f"Committed as {commit_report(workspace.reports, outcome)[:12]}")
            finally:
                output.print_analysis(outcome, run, as_json=as_json, quiet=quiet)
        return outcome

    outcome = run_until_signal(main())
    if discuss is None:
        discuss = _a_person_waits() and not (as_json or quiet or commit)
    return _discussed(outcome, given) if discuss and isinstance(outcome, AnalysisResult) else 0


def _a_person_waits() -> bool:
    """Return True in a terminal that is not a CI job's."""

    return output.in_terminal() and not os.environ.get("CI")


def _discussed(done: "AnalysisResult", given: "Options") -> int:
    """Start the discussion after the closing question; it shares the budget of the analysis."""
    from evalscribe.cli.discuss import run_session

    once = given.model_copy(update={"batch": False, "fresh": False})  # a person waits for the answer
    return run_session(once, str(done.path), spent=done.analysis.usage)
