"""`evalscribe review label`: what people say about the findings."""

from typing import Annotated, cast

import typer

from evalscribe.cli import options
from evalscribe.cli.reports import Name

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
Number = Annotated[int, typer.Argument(metavar="N", help="The finding's number in the report.")]
Label = Annotated[str, typer.Argument(metavar="LABEL", help="MODEL_FAULT, OVERLY_STRICT, AMBIGUOUS_TASK or KNOWN_GAP.")]
Kind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="Kind of cause: model, task, grader, lint, harness or infrastructure.",
        show_default=False,
    ),
]
Note = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Why, as a `Reviewer:` line of the finding.", show_default=False)
]


@app.command(short_help="Correct or confirm the label of one finding in the report.")
def label(
    report: Name, n: Number, label: Label, kind: Kind = None, note: Note = None, reports: options.Reports = None
) -> int:
    """Correct or confirm the label of one finding: its heading, its row and one `Reviewer:` line change, nothing else."""
    from evalscribe import wiring
    from evalscribe.app.correct import correct
    from evalscribe.cli import finish
    from evalscribe.finding import CAUSE_KINDS, CLASSIFICATIONS, CauseKind, Classification
    from evalscribe.settings import Options

    library = wiring.library(wiring.settings(Options(reports=reports)))
    word = _one_of(label.upper().replace("-", "_").replace(" ", "_"), CLASSIFICATIONS, "label")
    cause = _one_of(kind.lower(), CAUSE_KINDS, "kind of cause") if kind else None
    done = correct(library, report, n, cast(Classification, word), kind=cast(CauseKind | None, cause), note=note)
    change = f"{done.before} → {done.after}" if done.before != done.after else done.after
    finish.say(f"Finding {n}, {done.subject}: {change}{'' if done.changed else ' (unchanged)'}")
    if done.said is not None:
        finish.say(f"Reviewer: {done.said}")
    finish.say(f"Next: commit {done.report}; once it is merged, `evalscribe review sync` makes it a label.")
    return 0


def _one_of(word: str, known: tuple[str, ...], what: str) -> str:
    from evalscribe.errors import UsageError

    if word not in known:
        raise UsageError(f"{word!r} is no {what}; it is one of {', '.join(known)}")
    return word
