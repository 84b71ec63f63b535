"""`evalscribe datasets dedup preview|apply`."""

from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.datasets.options import Named
from evalscribe.cli.display.formatted import Format

if TYPE_CHECKING:
    from evalscribe.app.datasets.dedup import Duplicates

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.command()
def preview(dataset: Named, form: Format = "table") -> int:
    """Show which items of the draft ask and expect the same; nothing is changed."""
    import sys

    from evalscribe.app.datasets.dedup import duplicates
    from evalscribe.app.datasets.found import found
    from evalscribe.cli.display import finish, formatted
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        datasets = workspace.store.datasets
        groups = duplicates(datasets.draft(found(datasets, dataset).id))
    formatted.listing(groups, ("stays", "may go", "splits"), _cells, form, none="No two items ask and expect the same.")
    number = sum(len(group.others) for group in groups)
    finish.say(f"{pluralise(number, 'item')} may go, {pluralise(len(groups), 'group')}.", file=sys.stderr)
    return 0


@app.command()
def apply(
    dataset: Named,
    items: Annotated[
        list[str] | None,
        typer.Option("--remove-item-id", metavar="KEY", help="Only this duplicate. Repeatable.", show_default=False),
    ] = None,
    form: Format = "table",
) -> int:
    """Take duplicates out of the draft; the first of each stays."""
    from evalscribe.app.datasets.dedup import deduplicated
    from evalscribe.app.datasets.found import found
    from evalscribe.cli.display import formatted
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    formatted.checked(form)
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        done = deduplicated(datasets, found(datasets, dataset), items or ())
    told = f"{pluralise(done.items, 'duplicate')} taken out of the draft of {done.dataset}"
    formatted.document(done, lambda: (told,), form)
    return 0


def _cells(group: "Duplicates") -> tuple[object, ...]:
    return group.kept.key, ", ".join(twin.key for twin in group.others), ", ".join(group.splits)
