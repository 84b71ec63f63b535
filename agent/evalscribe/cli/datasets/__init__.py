"""`evalscribe datasets …`: items to be tried, as a draft and as versions."""

from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.datasets import adding, dedup, examples, reviews, versions
from evalscribe.cli.datasets.options import Dev, Named, Seed, Test, Train
from evalscribe.cli.display.formatted import Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalscribe.app.datasets.shown import Listed, Shown

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.command(short_help="Make a dataset; prints its id.")
def create(
    name: Annotated[str, typer.Option(metavar="NAME", help="Its name, usable wherever its id is.", show_default=False)],
    description: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.", show_default=False)] = "",
    form: Format = "table",
) -> int:
    """Make a dataset with an empty draft. Its id is printed, alone on standard output."""
    from evalscribe.app.datasets.adding import created
    from evalscribe.cli.display import formatted
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        datasets = workspace.store.datasets
        dataset = created(datasets, name, description, workspace.now())
    add = "`evalscribe datasets upload` and `add-example` put items into its draft, `publish` makes a version."
    formatted.made(dataset.id, dataset, f"Made dataset {dataset.name}: {add}", form)
    return 0


@app.command("list")
def list_all(
    search: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only those with this in name or description.", show_default=False),
    ] = None,
    form: Format = "table",
) -> int:
    """List the datasets with what they hold."""
    from evalscribe.app.datasets.shown import listed
    from evalscribe.cli.display import formatted
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        datasets = workspace.store.datasets
        there = list(listed(datasets, search))
    makes = "There is no dataset yet: `evalscribe datasets create --name N` makes one."
    none = f"No dataset has {search!r} in its name or description." if search else makes
    formatted.listing(there, ("id", "name", "draft", "versions", "latest", "created"), _cells, form, none)
    return 0


@app.command()
def show(dataset: Named, form: Format = "table") -> int:
    """Show a dataset: its draft in numbers, and its versions."""
    from evalscribe.app.datasets.found import found
    from evalscribe.app.datasets.shown import shown
    from evalscribe.cli.display import formatted
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = shown(datasets, found(datasets, dataset))
    formatted.document(one, lambda: _lines(one), form)
    return 0


@app.command(short_help="Deal the draft's items out to train, dev and test.")
def split(
    dataset: Named,
    train: Train = None,
    dev: Dev = None,
    test: Test = None,
    seed: Seed = 0,
    form: Format = "table",
) -> int:
    """Deal the draft's items out to train, dev and test, by cluster, else by key.

    No cluster is in two splits, and items that are added later move none. Where some shares are given, the others are
    0.
    """
    from evalscribe.app.datasets.found import found
    from evalscribe.app.datasets.split import checked_shares, dealt
    from evalscribe.cli.display import formatted
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    formatted.checked(form)
    shares = checked_shares({"train": train, "dev": dev, "test": test})
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        done = dealt(datasets, found(datasets, dataset), shares, seed)
    told = ", ".join(f"{name} {number:,}" for name, number in done.items.items())
    formatted.document(done, lambda: (f"{done.dataset}: {told}; {pluralise(done.changed, 'item')} moved",), form)
    return 0


def _cells(one: "Listed") -> tuple[object, ...]:
    latest = one.latest.id if one.latest else None
    return one.id, one.name, one.draft_items, one.versions, latest, one.created_at[:10]


def _lines(one: "Shown") -> "Iterator[str]":
    from evalscribe.text import one_line, pluralise

    yield f"{one.name}  {one.id}  made {one.created_at[:10]}"
    if one.description:
        yield one_line(one.description)
    state = f", as version {one.draft_is}" if one.draft_is else ", not published as it is" if one.draft_items else ""
    yield f"Draft: {pluralise(one.draft_items, 'item')}{state}; {one.with_expected:,} expect an output"
    if one.splits:
        yield "Splits: " + ", ".join(f"{name} {number:,}" for name, number in one.splits.items())
    if one.clusters:
        yield f"Clusters: {one.clusters:,}"
    for version in one.versions:
        yield f"  {versions.line(version)}"


adding.register(app)
app.command("from-reviews", short_help="Make a dataset of labels that people gave.")(reviews.from_reviews)
app.add_typer(dedup.app, name="dedup", help="Find items that ask and expect the same.")
app.command(short_help="Freeze the draft as a version; prints its id.")(versions.publish)
app.add_typer(versions.app, name="versions", help="List, compare, restore and export versions.")
app.add_typer(examples.app, name="examples", help="List and remove items.")
