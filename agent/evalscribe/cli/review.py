"""`evalscribe review label|sync|stats|export`: what people say about the findings."""

from os.path import relpath
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evalscribe.cli import options
from evalscribe.cli.reports import Name

if TYPE_CHECKING:
    from evalscribe.workspace import Workspace

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

Ref = Annotated[
    str | None,
    typer.Option(metavar="REF", help="What reports are merged into. Default: the remote's main branch, else HEAD."),
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The JSONL file to write.", show_default=False)]


@app.command(short_help="Correct or confirm the label of one finding in the report.")
def label(
    report: Name, n: Number, label: Label, kind: Kind = None, note: Note = None, reports: options.Reports = None
) -> int:
    """Correct or confirm a label: the finding's heading, its row and one `Reviewer:` line change, nothing else."""
    from evalscribe.app.reports.correct import correct
    from evalscribe.cli.display import finish
    from evalscribe.model.finding import CAUSE_KINDS, CLASSIFICATIONS, CauseKind, Classification
    from evalscribe.settings import Options
    from evalscribe.workspace import Workspace

    folder = Workspace(Options(reports=reports)).reports
    word = _one_of(label.upper().replace("-", "_").replace(" ", "_"), CLASSIFICATIONS, "label")
    cause = _one_of(kind.lower(), CAUSE_KINDS, "kind of cause") if kind else None
    done = correct(folder, report, n, cast(Classification, word), kind=cast(CauseKind | None, cause), note=note)
    change = f"{done.before} → {done.after}" if done.before != done.after else done.after
    finish.say(f"Finding {n}, {done.subject}: {change}{'' if done.changed else ' (unchanged)'}")
    if done.said is not None:
        finish.say(f"Reviewer: {done.said}")
    if not done.changed:
        finish.say("The report says so already. Your own word beside it: the same with --note TEXT.")
    where = quote(relpath(done.path))
    finish.say(f"Next: commit {where}; once it is merged, `evalscribe review sync` makes it a label.")
    return 0


@app.command(short_help="Read corrections in merged reports into labels.")
def sync(ref: Ref = None, reports: options.Reports = None, as_json: options.Json = False) -> int:
    """Read who corrected or confirmed what in merged reports; later analyses use it. Done twice, nothing changes."""
    from evalscribe.app.reports.review import sync as use_case
    from evalscribe.cli.display import labels

    with _opened(reports) as workspace:
        labels.synced(use_case(workspace.reports, workspace.store.analyses, ref), as_json=as_json)
    return 0


@app.command(short_help="Show how well judges agree with reviewers.")
def stats(reports: options.Reports = None, as_json: options.Json = False) -> int:
    """Show how well judges agree with reviewers, and reviewers with each other, by the labels of the last sync."""
    from evalscribe.app.reports.review import statistics
    from evalscribe.cli.display import labels

    with _opened(reports) as workspace:
        labels.statistics(statistics(workspace.reports, workspace.store.analyses), as_json=as_json)
    return 0


@app.command(short_help="Write the labels as a dataset for `judge-eval`.")
def export(file: File, reports: options.Reports = None) -> int:
    """Write every label in force as a dataset, on which a change of prompt, model or rule has to prove itself."""
    from evalscribe.app.reports.review import export as use_case
    from evalscribe.cli.display import labels

    with _opened(reports) as workspace:
        labels.exported(use_case(workspace.store.analyses, file))
    return 0


def _opened(reports: Path | None) -> "Workspace":
    from evalscribe.settings import Options
    from evalscribe.workspace import Workspace

    return Workspace(Options(reports=reports))


def _one_of(word: str, known: tuple[str, ...], what: str) -> str:
    from evalscribe.errors import UsageError

    if word not in known:
        raise UsageError(f"{word!r} is no {what}; it is one of {', '.join(known)}")
    return word
