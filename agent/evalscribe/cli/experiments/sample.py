"""`evalscribe experiments sample`."""

from typing import TYPE_CHECKING

from evalscribe.cli.formatted import Format

if TYPE_CHECKING:
    from evalscribe.experiment import Experiment
    from evalscribe.settings import Settings


def sample(form: Format = "table") -> int:
    """Make an experiment to try things on: a dataset of 20 questions, and two builds of a small agent that answers
    them without a model. Its id is printed.
    """
    from evalscribe.cli.formatted import checked, made
    from evalscribe.settings import Options
    from evalscribe.wiring import settings

    checked(form)
    experiment, new = _sampled(settings(Options()))
    told = (
        "Made experiment sample: 20 tickets, and the deployments sample-first and sample-second of an agent."
        if new
        else "The experiment sample is there already."
    )
    run = "`evalscribe experiments run sample --wait` runs the first build, `--deployment-id sample-second` the second."
    made(experiment.id, experiment, f"{told}\n{run}", form)
    return 0


def _sampled(found: "Settings") -> "tuple[Experiment, bool]":
    import platform

    from evalscribe.app.experiments.sample import sampled
    from evalscribe.graph.signals import run_until_signal
    from evalscribe.sample import tickets_file
    from evalscribe.wiring.datasets import item_file
    from evalscribe.wiring.experiments import binder, open_desk
    from evalscribe.wiring.targets import Components, source_state

    state = lambda folder: source_state(found, folder)  # noqa: E731
    with open_desk(found) as desk, item_file(str(tickets_file())) as (_, opened):
        python = platform.python_version()
        return run_until_signal(sampled(desk, opened, Components(), state, python, binder(found, desk)))
