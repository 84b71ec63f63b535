"""`evalscribe apply REPORT R3 --repo DIR`."""

from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli import options
from evalscribe.cli.reports import Name


def apply(
    report: Name,
    recommendation: Annotated[str, typer.Argument(metavar="ID", help="The recommendation, such as R3.")],
    repo: Annotated[
        Path, typer.Option(metavar="DIR", help="The eval suite's git repository, or a folder of it.")
    ] = Path(),
    yes: Annotated[
        bool,
        typer.Option("--yes", help="A person has agreed: commit what is shown. Refused on a terminal, which asks."),
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Have it proposed anew, not as the last time.")] = False,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER/MODEL", help="Who proposes the patch. Default: as for analyze.", show_default=False
        ),
    ] = None,
    reports: options.Reports = None,
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = None,
    env_file: options.EnvFile = None,
) -> int:
    """Propose the change that a recommendation calls for, and commit it to a new branch once a person says yes."""
    from evalscribe.cli.consent import implement
    from evalscribe.interrupts import run_until_signal
    from evalscribe.settings import Options

    given = Options(judge=judge, budget=budget, max_tokens=max_tokens, reports=reports, env_file=env_file, fresh=fresh)
    return implement(given, repo, report, recommendation, yes=yes, run=run_until_signal)
