"""`evalscribe datasets create|list|show|split|publish|delete|versions`."""

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
    int, typer.Option(metavar="N", help="Seed of the split; another seed gives another split. Default: 0.")
]
Version = Annotated[str, typer.Argument(metavar="V", help="A version: number, id, or latest.", show_default=False)]
Side = Annotated[str, typer.Argument(metavar="V", help="A version: number, id, latest, or draft.", show_default=False)]
MOST_TOLD = 50


def publish(
    dataset: Named,
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="What is new in this version.", show_default=False)
    ] = "",
    form: Format = "table",
) -> int:
    """Publish the draft as the next version. Prints its id.

    If a version with the same content exists, its id is printed.
    """
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = find_dataset(datasets, dataset)
        done = publish_version(datasets, one, description, workspace.now())
    number, items = done.version.number, pluralise(done.version.items, "item")
    told = f"Version {number} of {one.name}: {items}."
    tables.print_id(done.version.id, done.version, told if done.new else f"Unchanged since version {number}.", form)
    return 0


def list_versions(dataset: Named, form: Format = "table") -> int:
    """List the versions of a dataset."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = find_dataset(datasets, dataset)
        there = datasets.versions(one.id)
    none = f"Nothing was published yet: `evalscribe datasets publish {one.name}` creates a version."
    tables.print_list(
        there, ("number", "id", "items", "provenance", "created", "description"), _version_cells, form, none
    )
    return 0


def compare(dataset: Named, base: Side, other: Side, form: Format = "table") -> int:
    """Show which items were added, removed or changed between two versions."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        done = compare_versions(datasets, find_dataset(datasets, dataset), base, other)
    tables.print_document(done, lambda: _comparison_lines(done), form)
    return 0


def restore_draft(dataset: Named, version: Version, form: Format = "table") -> int:
    """Replace the draft with a version. Unpublished items of the draft are lost."""
    tables.validate_format(form)
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = find_dataset(datasets, dataset)
        wanted = find_dataset_version(datasets, one, version)
        before = datasets.draft_size(one.id)
        datasets.restore(wanted.id)
    items = pluralise(wanted.items, "item")
    told = f"The draft of {one.name} is version {wanted.number}: {items}, {before:,} before"
    tables.print_document(wanted, lambda: (told,), form)
    return 0


def export(
    dataset: Named,
    version: Version,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File to write; .gz compresses it. Default: standard output."
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
        one = find_dataset(datasets, dataset)
        wanted = find_dataset_version(datasets, one, version)
        write_lines(version_lines(datasets.items(wanted.id), form), output, json=form == "jsonl")
    if output is not None:
        hint(f"Version {wanted.number} of {one.name} is in {output}: {wanted.items:,} items")
    return 0


def line(version: DatasetVersion) -> str:
    """Format a version: `version 2  dsv-0123456789abcdef  12 items  2026-11-21`."""
    told = f"version {version.number}  {version.id}  {pluralise(version.items, 'item')}  {version.created_at[:10]}"
    return f"{told}  {one_line(version.description)}".rstrip()


def _version_cells(version: DatasetVersion) -> tuple[object, ...]:
    made = version.created_at[:10]
    return version.number, version.id, version.items, version.provenance, made, version.description


def _comparison_lines(done: VersionComparison) -> Iterator[str]:
    base, other = (f"{side.name} ({side.items:,} items)" for side in (done.base, done.other))
    yield f"{done.dataset}: {base} against {other}"
    if done.same:
        yield "The same items in the same order."
        return
    told = [f"+ {key}" for key in done.added] + [f"- {key}" for key in done.removed]
    told += [f"~ {one.key}: {', '.join(one.fields)}" for one in done.changed]
    yield f"{len(done.added):,} added, {len(done.removed):,} removed, {len(done.changed):,} changed"
    yield from (f"  {one}" for one in told[:MOST_TOLD])
    if len(told) > MOST_TOLD:
        yield f"  and {len(told) - MOST_TOLD:,} more; --format json lists all"
    if done.moved:
        yield "Items that both versions have are in a different order."


def create(
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Name of the dataset; commands take it in place of the id.", show_default=False
        ),
    ],
    description: Annotated[str, typer.Option(metavar="TEXT", help="What the dataset is for.", show_default=False)] = "",
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
            metavar="TEXT", help="List only datasets with this in their name or description.", show_default=False
        ),
    ] = None,
    form: Format = "table",
) -> int:
    """List the datasets and their contents."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        there = list(list_datasets(datasets, search))
    makes = "There is no dataset yet: `evalscribe datasets create --name N` creates one."
    none = f"No dataset has {search!r} in its name or description." if search else makes
    tables.print_list(there, ("id", "name", "draft", "versions", "latest", "created"), _cells, form, none)
    return 0


def show(dataset: Named, form: Format = "table") -> int:
    """Show a dataset: its draft in numbers, and its versions."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = summarise_dataset(datasets, find_dataset(datasets, dataset))
    tables.print_document(one, lambda: _lines(one), form)
    return 0


def delete(
    dataset: Named, yes: Annotated[bool, typer.Option("--yes", help="Delete its contents without asking.")] = False
) -> int:
    """Delete a dataset with its draft and its versions, after asking. Refused while an experiment uses the dataset."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = find_dataset(datasets, dataset)
        held = datasets.contents(one.id)
        if not may_delete(f"dataset {one.name}", held, yes=yes):
            return 0
        datasets.remove(one.id)
    say(f"Deleted dataset {one.name}: {held or 'it was empty'}.")
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

    Items of one cluster stay together, and adding items later moves no others. If you give only some shares, the others
    are 0.
    """
    tables.validate_format(form)
    shares = checked_shares({"train": train, "dev": dev, "test": test})
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        done = split_draft(datasets, find_dataset(datasets, dataset), shares, seed)
    told = ", ".join(f"{name} {number:,}" for name, number in done.items.items())
    tables.print_document(done, lambda: (f"{done.dataset}: {told}; {pluralise(done.changed, 'item')} moved",), form)
    return 0


def _cells(one: ListedDataset) -> tuple[object, ...]:
    latest = one.latest.id if one.latest else None
    return one.id, one.name, one.draft_items, one.versions, latest, one.created_at[:10]


def _lines(one: DatasetSummary) -> Iterator[str]:
    yield f"{one.name}  {one.id}  made {one.created_at[:10]}"
    if one.description:
        yield one_line(one.description)
    state = f", as version {one.draft_is}" if one.draft_is else ", with unpublished changes" if one.draft_items else ""
    yield f"Draft: {pluralise(one.draft_items, 'item')}{state}; {one.with_expected:,} with an expected output"
    if one.splits:
        yield "Splits: " + ", ".join(f"{name} {number:,}" for name, number in one.splits.items())
    if one.clusters:
        yield f"Clusters: {one.clusters:,}"
    for version in one.versions:
        yield f"  {line(version)}"
