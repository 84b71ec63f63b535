"""Implements `evalscribe datasets create|list|show|split|publish|delete|versions`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli import tables
from evalscribe.cli.output import hint, may_delete, say, write_lines
from evalscribe.cli.tables import Format
from evalscribe.experiments.datasets import (
    DatasetSummary,
    ListedDataset,
    VersionComparison,
    checked_shares,
    compare_versions,
    create_dataset,
    list_datasets,
    publish_version,
    split_draft,
    summarise_dataset,
    version_lines,
)
from evalscribe.model.dataset import DatasetVersion
from evalscribe.store.lookup import find_dataset, find_dataset_version
from evalscribe.text import one_line, pluralise
from evalscribe.workspace import Workspace

Named = Annotated[
    str,
    typer.Argument(metavar="DATASET", help="A dataset: id, first characters of the id, or name.", show_default=False),
]
Train = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Share of the items in train. Default: 0.2.", show_default=False)
]
Dev = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Share of the items in dev. Default: 0.4.", show_default=False)
]
Test = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Share of the items in test. Default: 0.4.", show_default=False)
]
Seed = Annotated[
    int, typer.Option(metavar="N", help="Seed of the split; a different seed gives a different split. Default: 0.")
]
Version = Annotated[str, typer.Argument(metavar="V", help="A version: number, id, or latest.", show_default=False)]
Side = Annotated[str, typer.Argument(metavar="V", help="A version: number, id, latest, or draft.", show_default=False)]
MOST_CHANGES = 50


def publish(
    dataset: Named,
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="Changes made in the new version.", show_default=False)
    ] = "",
    form: Format = "table",
) -> int:
    """Publish the draft as the next version.

    Prints the id of the version. If a version with the same content exists already, the id of that version is printed.
    """
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        dataset_record = find_dataset(datasets, dataset)
        result = publish_version(datasets, dataset_record, description, workspace.now())
    number, items = result.version.number, pluralise(result.version.items, "item")
    message = f"Version {number} of {dataset_record.name}: {items}."
    tables.print_id(
        result.version.id, result.version, message if result.new else f"Unchanged since version {number}.", form
    )
    return 0


def list_versions(dataset: Named, form: Format = "table") -> int:
    """List the versions of a dataset."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        dataset_record = find_dataset(datasets, dataset)
        versions = datasets.versions(dataset_record.id)
    none = f"Nothing was published yet: `evalscribe datasets publish {dataset_record.name}` creates a version."
    tables.print_list(
        versions, ("number", "id", "items", "provenance", "created", "description"), _version_cells, form, none
    )
    return 0


def compare(dataset: Named, base: Side, other: Side, form: Format = "table") -> int:
    """Show which items were added, removed or changed between two versions."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        result = compare_versions(datasets, find_dataset(datasets, dataset), base, other)
    tables.print_document(result, lambda: _comparison_lines(result), form)
    return 0


def restore_draft(dataset: Named, version: Version, form: Format = "table") -> int:
    """Replace the draft with a version. Unpublished items of the draft are lost."""
    tables.validate_format(form)
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        dataset_record = find_dataset(datasets, dataset)
        version_record = find_dataset_version(datasets, dataset_record, version)
        before = datasets.draft_size(dataset_record.id)
        datasets.restore(version_record.id)
    items = pluralise(version_record.items, "item")
    message = f"The draft of {dataset_record.name} is version {version_record.number}: {items}, {before:,} before"
    tables.print_document(version_record, lambda: (message,), form)
    return 0


def export(
    dataset: Named,
    version: Version,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write; compressed if it ends in .gz. Default: standard output.",
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="jsonl|csv", help="Output format; `datasets upload` can read jsonl. Default: jsonl."
        ),
    ] = "jsonl",
) -> int:
    """Write the items of a version."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        dataset_record = find_dataset(datasets, dataset)
        version_record = find_dataset_version(datasets, dataset_record, version)
        write_lines(version_lines(datasets.items(version_record.id), form), output, json=form == "jsonl")
    if output is not None:
        hint(f"Version {version_record.number} of {dataset_record.name} is in {output}: {version_record.items:,} items")
    return 0


def line(version: DatasetVersion) -> str:
    """Format a version on one line: `version 2 dsv-0123456789abcdef 12 items 2026-11-21`."""
    text = f"version {version.number}  {version.id}  {pluralise(version.items, 'item')}  {version.created_at[:10]}"
    return f"{text}  {one_line(version.description)}".rstrip()


def _version_cells(version: DatasetVersion) -> tuple[object, ...]:
    created = version.created_at[:10]
    return version.number, version.id, version.items, version.provenance, created, version.description


def _comparison_lines(result: VersionComparison) -> Iterator[str]:
    base, other = (f"{side.name} ({side.items:,} items)" for side in (result.base, result.other))
    yield f"{result.dataset}: {base} against {other}"
    if result.same:
        yield "The same items in the same order."
        return
    changes = [f"+ {key}" for key in result.added] + [f"- {key}" for key in result.removed]
    changes += [f"~ {change.key}: {', '.join(change.fields)}" for change in result.changed]
    yield f"{len(result.added):,} added, {len(result.removed):,} removed, {len(result.changed):,} changed"
    yield from (f"  {text}" for text in changes[:MOST_CHANGES])
    if len(changes) > MOST_CHANGES:
        yield f"  and {len(changes) - MOST_CHANGES:,} more; --format json lists all"
    if result.moved:
        yield "Items that both versions have are in a different order."


def create(
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Name of the dataset, which other commands accept in place of the id.",
            show_default=False,
        ),
    ],
    description: Annotated[str, typer.Option(metavar="TEXT", help="Purpose of the dataset.", show_default=False)] = "",
    form: Format = "table",
) -> int:
    """Create a dataset with an empty draft. Prints its id."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        dataset = create_dataset(datasets, name, description, workspace.now())
    add = "`evalscribe datasets upload` and `add-example` put items into its draft, `publish` creates a version."
    tables.print_id(dataset.id, dataset, f"Made dataset {dataset.name}: {add}", form)
    return 0


def list_all(
    search: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="List only datasets that have this text in the name or description.",
            show_default=False,
        ),
    ] = None,
    form: Format = "table",
) -> int:
    """List the datasets and their contents."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        rows = list(list_datasets(datasets, search))
    makes = "There is no dataset yet: `evalscribe datasets create --name N` creates one."
    none = f"No dataset has {search!r} in its name or description." if search else makes
    tables.print_list(rows, ("id", "name", "draft", "versions", "latest", "created"), _cells, form, none)
    return 0


def show(dataset: Named, form: Format = "table") -> int:
    """Show the versions of a dataset, and the number of items in the draft."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        summary = summarise_dataset(datasets, find_dataset(datasets, dataset))
    tables.print_document(summary, lambda: _lines(summary), form)
    return 0


def delete(
    dataset: Named, yes: Annotated[bool, typer.Option("--yes", help="Delete the dataset without asking.")] = False
) -> int:
    """Delete a dataset with its draft and its versions, after asking.

    A dataset cannot be deleted while an experiment uses it.
    """
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        dataset_record = find_dataset(datasets, dataset)
        contents = datasets.contents(dataset_record.id)
        if not may_delete(f"dataset {dataset_record.name}", contents, yes=yes):
            return 0
        datasets.remove(dataset_record.id)
    say(f"Deleted dataset {dataset_record.name}: {contents or 'it was empty'}.")
    return 0


def split(
    dataset: Named,
    train: Train = None,
    dev: Dev = None,
    test: Test = None,
    seed: Seed = 0,
    form: Format = "table",
) -> int:
    """Split the items of the draft into train, dev and test.

    All items of a cluster get the same split. Items that you add later do not move the
    earlier items. If you give one or two shares, each share that you leave out is 0.
    """
    tables.validate_format(form)
    shares = checked_shares({"train": train, "dev": dev, "test": test})
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        result = split_draft(datasets, find_dataset(datasets, dataset), shares, seed)
    counts = ", ".join(f"{name} {number:,}" for name, number in result.items.items())
    tables.print_document(
        result, lambda: (f"{result.dataset}: {counts}; {pluralise(result.changed, 'item')} moved",), form
    )
    return 0


def _cells(row: ListedDataset) -> tuple[object, ...]:
    latest = row.latest.id if row.latest else None
    return row.id, row.name, row.draft_items, row.versions, latest, row.created_at[:10]


def _lines(summary: DatasetSummary) -> Iterator[str]:
    yield f"{summary.name}  {summary.id}  made {summary.created_at[:10]}"
    if summary.description:
        yield one_line(summary.description)
    state = (
        f", as version {summary.draft_is}"
        if summary.draft_is
        else ", with unpublished changes"
        if summary.draft_items
        else ""
    )
    yield f"Draft: {pluralise(summary.draft_items, 'item')}{state}; {summary.with_expected:,} with an expected output"
    if summary.splits:
        yield "Splits: " + ", ".join(f"{name} {number:,}" for name, number in summary.splits.items())
    if summary.clusters:
        yield f"Clusters: {summary.clusters:,}"
    for version in summary.versions:
        yield f"  {line(version)}"
