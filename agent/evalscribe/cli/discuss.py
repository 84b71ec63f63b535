"""`evalscribe discuss REPORT`."""

from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli import options
from evalscribe.cli.reports import Name

Repo = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The eval suite's repository, for `implement R2`.", show_default=False),
]


def discuss(
    report: Name,
    ask: Annotated[
        list[str] | None, typer.Option("--ask", metavar="QUESTION", help="Answer this and end; can be repeated.")
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="rules|PROVIDER/MODEL",
            help="Who answers; `rules` asks no model and shows the evidence. Default: as for analyze.",
            show_default=False,
        ),
    ] = None,
    repo: Repo = None,
    reports: options.Reports = None,
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = None,
    env_file: options.EnvFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on one line per answer.")] = False,
) -> int:
    """Discuss a report: ask about it, one failure or a recommendation; nothing is written.

    Questions come from --ask, from the terminal, or line by line from a pipe.
    """
    from evalscribe.cli.session import session
    from evalscribe.settings import Options

    given = Options(judge=judge, budget=budget, max_tokens=max_tokens, reports=reports, env_file=env_file)
    return session(given, report, ask=ask, repo=repo, as_json=as_json)
