"""`evalscribe experiments sample`."""

from evalscribe.cli.display.formatted import Format


def sample(form: Format = "table") -> int:
    """Make an experiment to try things on: a dataset of 20 questions, and two builds of a small agent that answers
    them without a model. Its id is printed.
    """
    from evalscribe.app.experiments.sample import sampled
    from evalscribe.cli.display.formatted import checked, made
    from evalscribe.interrupts import run_until_signal
    from evalscribe.workspace import Workspace

    checked(form)
    with Workspace() as workspace:
        experiment, new = run_until_signal(sampled(workspace))
    told = (
        "Made experiment sample: 20 tickets, and the deployments sample-first and sample-second of an agent."
        if new
        else "The experiment sample is there already."
    )
    run = "`evalscribe experiments run sample --wait` runs the first build, `--deployment-id sample-second` the second."
    made(experiment.id, experiment, f"{told}\n{run}", form)
    return 0
