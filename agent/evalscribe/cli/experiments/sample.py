"""`evalscribe experiments sample`."""

from typing import TYPE_CHECKING

from evalscribe.cli.display.formatted import Format

if TYPE_CHECKING:
    from evalscribe.experiment import Experiment
    from evalscribe.settings import Settings


def sample(form: Format = "table") -> int:
    """Make an experiment to try things on: a dataset of 20 questions, and two builds of a small agent that answers
    them without a model. Its id is printed.
    """
    from evalscribe.cli.display.formatted import checked, made
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
    from evalscribe.graph.signals import run_until_signal
    from evalscribe.wiring.builds import make_sample

    return run_until_signal(make_sample(found))
