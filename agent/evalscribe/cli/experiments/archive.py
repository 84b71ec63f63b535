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
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.experiments import open_desk

    checked(form)
    with open_desk(settings(Options())) as desk:
        found = experiment_named(desk, experiment)
        desk.definitions.set_status(found.id, "active" if undo else "archived")
        now = experiment_named(desk, found.id)
    told = f"Experiment {now.name} is {'active again' if undo else 'archived'}."
    document(now, lambda: (told,), form)
    return 0
