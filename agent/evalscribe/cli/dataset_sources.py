"""Implements `evalscribe datasets add-run|from-reviews`, which create items from stored runs and from reports."""

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
        typer.Option(
            "--eval", metavar="EVAL", help="Eval to add; other evals are left out. Repeatable.", show_default=False
        ),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Add only evals that did not pass.")] = False,
    expected_output: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|TEXT",
            help="Expected output of the new item; allowed only with a single eval. "
            "Default: the eval's output if it passed, otherwise its expected output.",
            show_default=False,
        ),
    ] = None,
    form: Format = "table",
) -> int:
    """Add evals of a run to the draft.

    The run must be an imported run, an analysed run, or a run of an experiment.
    """
    expected = None if expected_output is None else (json_or_text("expected_output", expected_output),)
    with Workspace() as workspace:
        dataset_record = find_dataset(workspace.store.datasets, dataset)
        result = add_run_items(workspace, dataset_record, run, evals=evals or (), failed=failed, expected=expected)
    tables.print_document(result, lambda: (_added_line(result),), form)
    _print_omissions(result)
    return 0


def _added_line(result: AddedRunItems) -> str:
    states = {"new": result.added.new, "changed": result.added.changed, "there already": result.added.same}
    counts = ", ".join(f"{number:,} {state}" for state, number in states.items() if number) or "none"
    number = result.added.new + result.added.changed + result.added.same
    return f"{result.dataset}: {pluralise(number, 'item')} of run {result.run_id}: {counts}."


def _print_omissions(result: AddedRunItems) -> None:
    if result.unknown:
        message = (
            f"{pluralise(result.unknown, 'item')} did not pass and got no expected output, because the run has none."
        )
        output.aside(message)
    if result.unusable:
        message = f"{pluralise(len(result.unusable), 'eval')} left out, because the run does not contain their input: "
        output.aside(message + ", ".join(result.unusable[:5]))


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

    Each labelled failure becomes an item that contains the failure's current evidence and label. All items of an eval
    get the same split. With --publish, the id of the published version is printed instead of the dataset's id.
    """
    tables.validate_format(form)
    shares = checked_shares({"train": train, "dev": dev, "test": test})
    with Workspace(Options(reports=reports)) as workspace:
        result = use_case(workspace, name, shares=shares, seed=seed, unreviewed=unreviewed, publish=publish)
    for line in _omission_lines(result):
        output.aside(line) if result.labels else output.say(line, file=sys.stderr)
    tables.print_id(result.version.id if result.version else result.dataset_id, result, _dataset_line(result), form)
    return 0 if result.labels else NotFoundError.exit_code


def _dataset_line(result: FromReviews) -> str:
    number = sum(result.labels.values())
    labels = ", ".join(f"{label} {count:,}" for label, count in sorted(result.labels.items())) or "none"
    splits = ", ".join(f"{split} {count:,}" for split, count in result.splits.items())
    version = (
        f"version {result.version.number}" if result.version else "in the draft; `datasets publish` makes a version"
    )
    return f"{result.dataset}: {pluralise(number, 'labelled failure')} ({labels}); {splits}; {version}"


def _omission_lines(result: FromReviews) -> Iterator[str]:
    if result.unreviewed:
        yield f"{pluralise(result.unreviewed, 'item')} labelled only by a judge: they cannot test that judge"
    if result.duplicates:
        yield f"Left out: {result.duplicates:,} equivalent to an included failure with the same label"
    if result.contradicted:
        yield f"Left out: {result.contradicted:,} that two reports on the same run label differently"
    if result.withdrawn:
        yield f"Removed: {pluralise(result.withdrawn, 'item')} whose failure no longer has a label"
    if result.missing:
        number, runs = pluralise(sum(result.missing.values()), "labelled failure"), list(result.missing)
        of = f"of {pluralise(len(runs), 'run')}: {join_first(runs, MOST_RUNS)}"
        yield f"Left out: {number} whose evidence is not in the store, {of}"
        yield "Import these runs and try again: `evalscribe import FILE`; `evalscribe fetch RUN -o DIR` gets a run."
