"""`evalscribe datasets publish` and `datasets versions list|compare|restore-draft|export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.datasets.options import Named
from evalscribe.cli.display.formatted import Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalscribe.app.datasets.compare import Compared
    from evalscribe.model.dataset import DatasetVersion

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
Version = Annotated[str, typer.Argument(metavar="V", help="A version's number or id, or latest.", show_default=False)]
Side = Annotated[
    str, typer.Argument(metavar="V", help="A version's number or id, latest, or draft.", show_default=False)
]
MOST_TOLD = 50


def publish(
    dataset: Named,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What is new in it.", show_default=False)] = "",
    form: Format = "table",
) -> int:
    """Freeze the draft as the next version. Its id is printed; where a version has this content already, that one's."""
    from evalscribe.app.datasets.found import found
    from evalscribe.app.datasets.publish import published
    from evalscribe.cli.display import formatted
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = found(datasets, dataset)
        done = published(datasets, one, description, workspace.now())
    number, items = done.version.number, pluralise(done.version.items, "item")
    told = f"Version {number} of {one.name}: {items}."
    formatted.made(done.version.id, done.version, told if done.new else f"Unchanged: version {number} has it.", form)
    return 0


@app.command("list")
def list_all(dataset: Named, form: Format = "table") -> int:
    """List the versions of a dataset."""
    from evalscribe.app.datasets.found import found
    from evalscribe.cli.display import formatted
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = found(datasets, dataset)
        there = datasets.versions(one.id)
    none = f"Nothing was published yet: `evalscribe datasets publish {one.name}` makes a version."
    formatted.listing(there, ("number", "id", "items", "provenance", "created", "description"), _cells, form, none)
    return 0


@app.command()
def compare(dataset: Named, base: Side, other: Side, form: Format = "table") -> int:
    """Show which items were added, removed or changed from one version to another."""
    from evalscribe.app.datasets.compare import compared
    from evalscribe.app.datasets.found import found
    from evalscribe.cli.display import formatted
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        datasets = workspace.store.datasets
        done = compared(datasets, found(datasets, dataset), base, other)
    formatted.document(done, lambda: _lines(done), form)
    return 0


@app.command("restore-draft")
def restore_draft(dataset: Named, version: Version, form: Format = "table") -> int:
    """Make the draft what a version is. What the draft holds and no version has is gone."""
    from evalscribe.app.datasets.found import found, version_named
    from evalscribe.cli.display import formatted
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    formatted.checked(form)
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = found(datasets, dataset)
        wanted = version_named(datasets, one, version)
        before = datasets.draft_size(one.id)
        datasets.restore(wanted.id)
    items = pluralise(wanted.items, "item")
    told = f"The draft of {one.name} is version {wanted.number}: {items}, {before:,} before"
    formatted.document(wanted, lambda: (told,), form)
    return 0


@app.command()
def export(
    dataset: Named,
    version: Version,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Default: standard output. FILE.gz is packed."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="jsonl|csv", help="`upload` reads JSON lines again, as they are.")
    ] = "jsonl",
) -> int:
    """Write the items of a version."""
    from evalscribe.app.datasets.export import lines
    from evalscribe.app.datasets.found import found, version_named
    from evalscribe.cli.display import finish
    from evalscribe.cli.display.line_file import write
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = found(datasets, dataset)
        wanted = version_named(datasets, one, version)
        write(lines(datasets.items(wanted.id), form), output, json=form == "jsonl")
    if output is not None:
        finish.say(f"Version {wanted.number} of {one.name} is in {output}: {wanted.items:,} items")
    return 0


def line(version: "DatasetVersion") -> str:
    """`version 2  dsv-0123456789abcdef  12 items  2026-11-21`."""
    from evalscribe.text import one_line, pluralise

    told = f"version {version.number}  {version.id}  {pluralise(version.items, 'item')}  {version.created_at[:10]}"
    return f"{told}  {one_line(version.description)}".rstrip()


def _cells(version: "DatasetVersion") -> tuple[object, ...]:
    made = version.created_at[:10]
    return version.number, version.id, version.items, version.provenance, made, version.description


def _lines(done: "Compared") -> "Iterator[str]":
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
        yield f"  and {len(told) - MOST_TOLD:,} more; --format json has all"
    if done.moved:
        yield "Items that both have stand in another order."
