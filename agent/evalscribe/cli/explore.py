"""`evalscribe explore QUESTION`."""

from typing import Annotated

import typer

from evalscribe.cli import options


def explore(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="What you want to know of many runs.", show_default=False)
    ],
    collection: options.Collection = None,
    where: options.Where = None,
    judge: options.Judge = None,
    max_runs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Read at most so many agent runs.", show_default=False)
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask again what is already known.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what asking would take; ask and write nothing.")
    ] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write the page into the reports.")] = True,
    reports: options.Reports = None,
    concurrency: options.Concurrency = None,
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = None,
    env_file: options.EnvFile = None,
    as_json: options.Json = False,
) -> int:
    """Ask a question about a whole collection: what is seen in its runs, put together, and answered with quotations."""
    from evalscribe.app.explorations.explore import explore as use_case
    from evalscribe.cli.display import explorations
    from evalscribe.cli.display.judgements import tell_spent
    from evalscribe.cli.display.progress import Display
    from evalscribe.interrupts import run_until_signal
    from evalscribe.settings import Options
    from evalscribe.workspace import Workspace

    given = Options(
        judge=judge,
        reports=reports,
        concurrency=concurrency,
        budget=budget,
        max_tokens=max_tokens,
        env_file=env_file,
        fresh=fresh,
    )

    async def main() -> int:
        with Display(quiet=False) as display:
            async with Workspace(given) as workspace:
                try:
                    done = await use_case(
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
                    tell_spent(workspace.models.spent())
        return explorations.show(done, as_json=as_json)

    return run_until_signal(main())
