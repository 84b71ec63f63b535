"""`evalscribe datasets examples list|remove`."""

from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.datasets.options import Named
from evalscribe.cli.display.formatted import Format

if TYPE_CHECKING:
    from evalscribe.app.datasets.shown import Example
    from evalscribe.model.dataset import Item

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
HEADS = ("key", "split", "cluster", "input", "expected")


@app.command("list")
def list_all(
    dataset: Named,
    version: Annotated[
        str | None,
        typer.Option(metavar="V", help="A version's number or id, or latest. Default: the draft.", show_default=False),
    ] = None,
    split: Annotated[str | None, typer.Option(metavar="SPLIT", help="Only this split.", show_default=False)] = None,
    include_payload: Annotated[
        bool, typer.Option("--include-payload", help="Whole items, not the beginnings of what they hold.")
    ] = False,
    form: Format = "table",
) -> int:
    """List the items of the draft, or of a version."""
    from evalscribe.app.datasets.found import found, version_named
    from evalscribe.app.datasets.shown import examples, in_short
    from evalscribe.cli.display import formatted
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = found(datasets, dataset)
        held = datasets.items(version_named(datasets, one, version).id) if version else datasets.draft(one.id)
        chosen = examples(held, split)
        none = f"No item is here: `evalscribe datasets upload {one.name} FILE` puts some into the draft."
        if include_payload:
            formatted.listing(chosen, (*HEADS, "metadata", "events"), _whole, form, none)
        else:
            formatted.listing(map(in_short, chosen), (*HEADS, "events"), _short, form, none)
    return 0


@app.command()
def remove(
    dataset: Named,
    keys: Annotated[list[str], typer.Argument(metavar="KEY…", help="Keys of items.", show_default=False)],
    form: Format = "table",
) -> int:
    """Take items out of the draft. Versions keep theirs."""
    from evalscribe.app.datasets.adding import taken_out
    from evalscribe.app.datasets.found import found
    from evalscribe.cli.display import formatted
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    formatted.checked(form)
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        done = taken_out(datasets, found(datasets, dataset), keys)
    told = f"{pluralise(done.items, 'item')} taken out of the draft of {done.dataset}"
    formatted.document(done, lambda: (told,), form)
    return 0


def _short(one: "Example") -> tuple[object, ...]:
    return one.key, one.split, one.cluster, one.input, one.expected_output, one.events or None


def _whole(one: "Item") -> tuple[object, ...]:
    from evalscribe.json_data import to_text
    from evalscribe.text import one_line

    expected = None if one.expected_output is None else one_line(to_text(one.expected_output))
    metadata = one_line(to_text(one.metadata)) if one.metadata else None
    return one.key, one.split, one.cluster, one_line(to_text(one.input)), expected, metadata, len(one.events) or None
