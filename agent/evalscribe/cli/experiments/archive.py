"""`evalscribe experiments archive EXPERIMENT`."""

from typing import Annotated

import typer

from evalscribe.cli.experiments.options import ExperimentArgument


def archive(
    experiment: ExperimentArgument,
    undo: Annotated[bool, typer.Option("--undo", help="Take it back.")] = False,
) -> int:
    """Put an experiment aside: `list --status active` leaves it out. Its runs stay."""
    from evalscribe.app.experiments.find import experiment_named
    from evalscribe.cli import finish
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.experiments import open_desk

    with open_desk(settings(Options())) as desk:
        found = experiment_named(desk, experiment)
        desk.definitions.set_status(found.id, "active" if undo else "archived")
    finish.say(f"Experiment {found.name} is {'active again' if undo else 'archived'}.")
    return 0
