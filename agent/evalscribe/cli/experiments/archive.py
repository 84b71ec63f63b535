"""`evalscribe experiments archive EXPERIMENT`."""

from typing import Annotated

import typer

from evalscribe.cli.display.formatted import Format
from evalscribe.cli.experiments.options import ExperimentArgument


def archive(
    experiment: ExperimentArgument,
    undo: Annotated[bool, typer.Option("--undo", help="Take it back.")] = False,
    form: Format = "table",
) -> int:
    """Put an experiment aside: `list --status active` leaves it out. Its runs stay."""
    from evalscribe.app.experiments.find import experiment_named
    from evalscribe.cli.display.formatted import checked, document
    from evalscribe.workspace import Workspace

    checked(form)
    with Workspace() as workspace:
        found = experiment_named(workspace, experiment)
        workspace.store.experiments.set_status(found.id, "active" if undo else "archived")
        now = experiment_named(workspace, found.id)
    told = f"Experiment {now.name} is {'active again' if undo else 'archived'}."
    document(now, lambda: (told,), form)
    return 0
