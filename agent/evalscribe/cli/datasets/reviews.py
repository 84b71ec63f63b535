"""`evalscribe datasets from-reviews`."""

from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli import options
from evalscribe.cli.datasets.options import Dev, Seed, Test, Train
from evalscribe.cli.display.formatted import Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalscribe.app.datasets.from_reviews import FromReviews

MOST_RUNS = 5


def from_reviews(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A dataset; made where there is none.", show_default=False)
    ],
    train: Train = None,
    dev: Dev = None,
    test: Test = None,
    seed: Seed = 0,
    unreviewed: Annotated[
        bool,
        typer.Option(
            "--all/--reviewed-only",
            help="Also findings that nobody reviewed, with the judge's own label. No judge can be proved on its own.",
        ),
    ] = False,
    publish: Annotated[bool, typer.Option("--publish", help="Freeze the draft as a version at once.")] = False,
    reports: options.Reports = None,
    form: Format = "table",
) -> int:
    """Make a dataset of the labels that people gave in merged reports.

    Each labelled failure is an item: its evidence as it is now, and the label. All items of one eval are in one split.
    With --publish the version's id is printed, else the dataset's.
    """
    import sys

    from evalscribe.app.datasets.from_reviews import from_reviews as use_case
    from evalscribe.app.datasets.split import checked_shares
    from evalscribe.cli.display import finish, formatted
    from evalscribe.errors import NotFoundError
    from evalscribe.settings import Options
    from evalscribe.workspace import Workspace

    formatted.checked(form)
    shares = checked_shares({"train": train, "dev": dev, "test": test})
    with Workspace(Options(reports=reports)) as workspace:
        done = use_case(workspace, name, shares=shares, seed=seed, unreviewed=unreviewed, publish=publish)
    for line in _left_out(done):
        finish.say(line, file=sys.stderr)
    formatted.made(done.version.id if done.version else done.dataset_id, done, _told(done), form)
    return 0 if done.labels else NotFoundError.exit_code


def _told(done: "FromReviews") -> str:
    from evalscribe.text import pluralise

    number = sum(done.labels.values())
    labels = ", ".join(f"{label} {count:,}" for label, count in sorted(done.labels.items())) or "none"
    splits = ", ".join(f"{split} {count:,}" for split, count in done.splits.items())
    version = f"version {done.version.number}" if done.version else "in the draft; `datasets publish` makes a version"
    return f"{done.dataset}: {pluralise(number, 'labelled failure')} ({labels}); {splits}; {version}"


def _left_out(done: "FromReviews") -> "Iterator[str]":
    from evalscribe.text import join_first, pluralise

    if done.unreviewed:
        yield f"{pluralise(done.unreviewed, 'item')} with a label that only a judge gave: no proof of that judge"
    if done.alike:
        yield f"Left out: {done.alike:,} that one label answers for together with a failure that is in it"
    if done.contradicted:
        yield f"Left out: {done.contradicted:,} that two reports of their run label differently"
    if done.withdrawn:
        yield f"Taken out: {pluralise(done.withdrawn, 'item')} whose failure has no label any more"
    if done.missing:
        number, runs = pluralise(sum(done.missing.values()), "labelled failure"), list(done.missing)
        of = f"of {pluralise(len(runs), 'run')}: {join_first(runs, MOST_RUNS)}"
        yield f"Left out: {number} whose evidence is not in the store, {of}"
        yield "Bring it in and do it again: `evalscribe import FILE`; `evalscribe fetch RUN -o DIR` writes such files."
