"""`evalscribe experiments runs compare BASE CANDIDATE`."""

from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.display.formatted import Format

if TYPE_CHECKING:
    from evalscribe.model.run_comparison import RunComparison

REGRESSED = 2
TOO_LITTLE = 3
NOT_COMPARABLE = 65


def compare(
    base: Annotated[
        str,
        typer.Argument(metavar="BASE", help="The run to compare with, by id or name.", show_default=False),
    ],
    candidate: Annotated[
        str, typer.Argument(metavar="CANDIDATE", help="The run in question, by id or name.", show_default=False)
    ],
    allow_mismatch: Annotated[
        bool,
        typer.Option("--allow-mismatch", help="Compare the items and scorers that both share; say what is left out."),
    ] = False,
    asserts: Annotated[
        bool,
        typer.Option("--assert", help="Exit 2 where the candidate regressed, 3 where too little of it was judged."),
    ] = False,
    form: Format = "table",
) -> int:
    """Compare two runs of experiments over the same dataset version: verdict, rates, scorers, and what flipped.

    Exits 65 where the runs cannot be compared.
    """
    from evalscribe.app.experiments.compare import compare_runs
    from evalscribe.cli.display.formatted import checked, document
    from evalscribe.experiments.run_text import comparison_lines
    from evalscribe.workspace import Workspace

    checked(form)
    with Workspace() as workspace:
        found = compare_runs(workspace, base, candidate, allow_mismatch=allow_mismatch)
    document(found, lambda: comparison_lines(found), form)
    if found.verdict == "not-comparable":
        return NOT_COMPARABLE
    return _asserted(found) if asserts else 0


def _asserted(found: "RunComparison") -> int:
    from evalscribe.experiments.compare import LEAST_COVERAGE

    if found.verdict == "regressed":
        return REGRESSED
    ended = found.candidate.state == "completed"
    return 0 if ended and found.coverage >= LEAST_COVERAGE else TOO_LITTLE
