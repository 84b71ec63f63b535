"""`evalscribe experiments list`."""

from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.display.formatted import Format

if TYPE_CHECKING:
    from evalscribe.app.experiments.listing import ListedExperiment

HEADS = ("id", "name", "type", "status", "version", "target", "dataset", "scorers", "runs")


def list_all(
    dataset_id: Annotated[
        str | None, typer.Option(metavar="ID|NAME", help="Only those of this dataset.", show_default=False)
    ] = None,
    status: Annotated[
        str | None, typer.Option(metavar="active|archived", help="Only of this status.", show_default=False)
    ] = None,
    type: Annotated[
        str | None,
        typer.Option(metavar="standard|regression|classifier", help="Only of this type.", show_default=False),
    ] = None,
    page: Annotated[int, typer.Option(min=1, metavar="N", help="Which page, from 1.")] = 1,
    page_size: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="So many experiments a page.")] = 50,
    form: Format = "table",
) -> int:
    """List the experiments, oldest first."""
    from evalscribe.app.experiments.listing import listed
    from evalscribe.cli.display.formatted import checked, listing
    from evalscribe.workspace import Workspace

    checked(form)
    with Workspace() as workspace:
        rows = listed(workspace, dataset=dataset_id, status=status, type=type, page=page, page_size=page_size)
    none = "There is no such experiment: `evalscribe experiments create` makes one, `experiments sample` a ready one."
    listing(rows, HEADS, _cells, form, none)
    return 0


def _cells(one: "ListedExperiment") -> tuple[object, ...]:
    head = one.experiment
    own = (head.id, head.name, head.type, head.status)
    return *own, one.version, one.target, one.dataset, ", ".join(one.scorers), one.runs
