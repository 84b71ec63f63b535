"""`evalscribe analyze RUN`."""

from typing import Annotated

import typer

from evalscribe.cli import options


def analyze(
    run: options.RunArgument,
    judge: options.Judge = None,
    rubric: options.Rubric = None,
    cascade: options.Cascade = False,
    batch: options.Batch = False,
    reports: options.Reports = None,
    date: options.Date = None,
    concurrency: options.Concurrency = None,
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
) -> int:
    """Find out why a model failed a run, and whose fault it was."""
    from evalscribe import wiring
    from evalscribe.app.analyze import analyze as use_case
    from evalscribe.app.outcomes import Analyzed, Wish
    from evalscribe.app.publishing import committed
    from evalscribe.cli import finish
    from evalscribe.cli.progress import Display
    from evalscribe.graph.signals import run_until_signal
    from evalscribe.settings import Options

    wish = Wish(date=options.checked_date(date), fresh=fresh, dry_run=dry_run, provider=provider, model=model)
    given = wiring.Choice(
        run=run,
        via=via,
        convex_dir=convex_dir,
        rubric=rubric,
        cascade=cascade,
        batch=batch,
        fresh=fresh,
        writes=not dry_run,
        options=Options(
            judge=judge,
            budget=budget,
            concurrency=concurrency,
            max_tokens=max_tokens,
            reports=reports,
            deployment=deployment,
            key_file=key_file,
            env_file=env_file,
        ),
    )

    async def main() -> None:
        async with wiring.open_desk(given) as desk:
            with Display(quiet=quiet) as display:
                outcome = await use_case(desk, wish, display)
        try:
            if commit and isinstance(outcome, Analyzed):
                display.say(f"Committed as {committed(desk.library, outcome)[:12]}")
        finally:
            finish.analysis(outcome, run, as_json=as_json, quiet=quiet)

    run_until_signal(main())
    return 0
