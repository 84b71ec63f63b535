"""`evalscribe datasets add-run|from-reviews`: items from stored runs and from reports."""

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from evalscribe.cli import options, output, tables
from evalscribe.cli.datasets import Dev, Named, Seed, Test, Train
from evalscribe.cli.tables import Format
from evalscribe.errors import NotFoundError
from evalscribe.experiments.datasets import checked_shares, json_or_text
from evalscribe.experiments.items_of_runs import AddedRunItems, FromReviews, add_run_items
from evalscribe.experiments.items_of_runs import from_reviews as use_case
from evalscribe.settings import Options
from evalscribe.store.lookup import find_dataset
from evalscribe.text import join_first, pluralise
from evalscribe.workspace import Workspace


def add_run(
    dataset: Named,
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A stored run: id, first characters of the id, or name.",
            show_default=False,
        ),
    ],
    evals: Annotated[
        list[str] | None,
        typer.Option("--eval", metavar="EVAL", help="Add only this eval. Repeatable.", show_default=False),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Add only evals that did not pass.")] = False,
    expected_output: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|TEXT",
            help="Expected output of a single eval. Default: its output if it passed, else what was expected.",
            show_default=False,
        ),
    ] = None,
    form: Format = "table",
) -> int:
    """Add evals of a run to the draft. The run must be imported, analysed, or a run of an experiment."""
    expected = None if expected_output is None else (json_or_text("expected_output", expected_output),)
    with Workspace() as workspace:
        one = find_dataset(workspace.store.datasets, dataset)
        done = add_run_items(workspace, one, run, evals=evals or (), failed=failed, expected=expected)
    tables.print_document(done, lambda: (_taken(done),), form)
    _taken_notes(done)
    return 0


def _taken(done: AddedRunItems) -> str:
    states = {"new": done.added.new, "changed": done.added.changed, "there already": done.added.same}
    told = ", ".join(f"{number:,} {state}" for state, number in states.items() if number) or "none"
    number = done.added.new + done.added.changed + done.added.same
    return f"{done.dataset}: {pluralise(number, 'item')} of run {done.run_id}: {told}."


def _taken_notes(done: AddedRunItems) -> None:
    if done.unknown:
        told = f"{pluralise(done.unknown, 'item')} did not pass: no expected output, because the run has none."
        output.aside(told)
    if done.unusable:
        told = f"{pluralise(len(done.unusable), 'eval')} left out, because the run does not contain their input: "
        output.aside(told + ", ".join(done.unusable[:5]))


MOST_RUNS = 5


def from_reviews(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Name of the dataset; created if it does not exist.", show_default=False),
    ],
    train: Train = None,
    dev: Dev = None,
    test: Test = None,
    seed: Seed = 0,
    unreviewed: Annotated[
        bool,
        typer.Option(
            "--all/--reviewed-only",
            help="Include findings that nobody reviewed (--all), or leave them out (default).",
        ),
    ] = False,
    publish: Annotated[bool, typer.Option("--publish", help="Publish the draft as a version afterwards.")] = False,
    reports: options.Reports = None,
    form: Format = "table",
) -> int:
    """Build a dataset from the labels that people gave in merged reports. Prints its id.

    Each labelled failure becomes an item with its current evidence and its label. All items of one eval are in one
    split. With --publish, prints the id of the version.
    """
    tables.validate_format(form)
    shares = checked_shares({"train": train, "dev": dev, "test": test})
    with Workspace(Options(reports=reports)) as workspace:
        done = use_case(workspace, name, shares=shares, seed=seed, unreviewed=unreviewed, publish=publish)
    for line in _left_out(done):
        output.aside(line) if done.labels else output.say(line, file=sys.stderr)
    tables.print_id(done.version.id if done.version else done.dataset_id, done, _told(done), form)
    return 0 if done.labels else NotFoundError.exit_code


def _told(done: FromReviews) -> str:
    number = sum(done.labels.values())
    labels = ", ".join(f"{label} {count:,}" for label, count in sorted(done.labels.items())) or "none"
    splits = ", ".join(f"{split} {count:,}" for split, count in done.splits.items())
    version = f"version {done.version.number}" if done.version else "in the draft; `datasets publish` makes a version"
    return f"{done.dataset}: {pluralise(number, 'labelled failure')} ({labels}); {splits}; {version}"


def _left_out(done: FromReviews) -> Iterator[str]:
    if done.unreviewed:
        yield f"{pluralise(done.unreviewed, 'item')} labelled only by a judge: they cannot test that judge"
    if done.alike:
        yield f"Left out: {done.alike:,} that share one label with an included failure"
    if done.contradicted:
        yield f"Left out: {done.contradicted:,} that two reports of their run label differently"
    if done.withdrawn:
        yield f"Removed: {pluralise(done.withdrawn, 'item')} whose failure no longer has a label"
    if done.missing:
        number, runs = pluralise(sum(done.missing.values()), "labelled failure"), list(done.missing)
        of = f"of {pluralise(len(runs), 'run')}: {join_first(runs, MOST_RUNS)}"
        yield f"Left out: {number} whose evidence is not in the store, {of}"
        yield "Import these runs and try again: `evalscribe import FILE`; `evalscribe fetch RUN -o DIR` gets a run."
