"""`evalscribe compare BASE CANDIDATE [MORE…]`."""

from typing import Annotated

import typer

from evalscribe.cli import options


def compare(
    sides: Annotated[
        list[str],
        typer.Argument(
            metavar="BASE CANDIDATE [MORE]...",
            help="Runs by id or its beginning, files to import, URLs, or PROVIDER/MODEL of the collection.",
            show_default=False,
        ),
    ],
    within: Annotated[
        bool, typer.Option("--within", help="Of one run: each failed trial beside one of its task that passed.")
    ] = False,
    collection: options.Collection = None,
    judge: options.Judge = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask again what is already known.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what asking would take; ask and write nothing.")
    ] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write the page into the reports.")] = True,
    reports: options.Reports = None,
    concurrency: options.Concurrency = None,
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = None,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
    via: options.Via = "http",
    convex_dir: options.ConvexDir = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Of more than two: the matrix as CSV.")] = False,
    as_json: options.Json = False,
) -> int:
    """Compare two runs or checkpoints: what changed, whether it is noise, and why. More than two: a matrix."""
    from evalscribe.app.comparisons.compare import compare as use_case
    from evalscribe.cli.display import comparisons
    from evalscribe.cli.display.judgements import tell_spent
    from evalscribe.cli.display.progress import Display
    from evalscribe.interrupts import run_until_signal
    from evalscribe.settings import Options
    from evalscribe.workspace import Workspace

    _check(sides, within=within, as_csv=as_csv, as_json=as_json)
    given = Options(
        judge=judge,
        reports=reports,
        concurrency=concurrency,
        budget=budget,
        max_tokens=max_tokens,
        deployment=deployment,
        key_file=key_file,
        env_file=env_file,
        via=via or "http",
        convex_dir=convex_dir,
        fresh=fresh,
    )

    async def main() -> int:
        with Display(quiet=False) as display:
            async with Workspace(given) as workspace:
                try:
                    done = await use_case(
                        workspace, sides, display, collection=collection, dry_run=dry_run, writes=report
                    )
                finally:
                    tell_spent(workspace.models.spent())
        return comparisons.show(done, dry_run=dry_run, as_json=as_json, as_csv=as_csv)

    return run_until_signal(main())


def _check(sides: list[str], *, within: bool, as_csv: bool, as_json: bool) -> None:
    from evalscribe.errors import UsageError

    if within and len(sides) != 1:
        raise UsageError("--within takes one run: `evalscribe compare --within RUN`")
    if not within and len(sides) < 2:
        raise UsageError("compare with what? `evalscribe compare BASE CANDIDATE`, or `compare --within RUN`")
    if as_csv and (as_json or len(sides) < 3):
        raise UsageError("--csv is the matrix of three runs or more, in place of --json")
