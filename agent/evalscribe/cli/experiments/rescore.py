"""`evalscribe experiments runs rescore [EXPERIMENT] RUN`."""

from typing import Annotated

import typer

from evalscribe.cli.display.formatted import Format
from evalscribe.cli.experiments.options import Budget, EnvFile, MaxTokens, RunOfExperiment


def rescore(
    run: RunOfExperiment,
    scorer: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this scorer. Repeatable. Default: all.", show_default=False),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why; stands beside the new scores.", show_default=False)
    ] = None,
    experiment_version_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID|N", help="By the scorers of this version. Default: those of the run's.", show_default=False
        ),
    ] = None,
    budget: Budget = None,
    max_tokens: MaxTokens = None,
    env_file: EnvFile = None,
    form: Format = "table",
) -> int:
    """Score the stored outputs of a run again; nothing is tried again. Old scores are kept, new ones take their
    place."""
    from evalscribe.app.experiments.find import run_of_experiment
    from evalscribe.app.experiments.rescore import rescored
    from evalscribe.cli.display.formatted import checked, document
    from evalscribe.cli.display.run_progress import RunDisplay
    from evalscribe.interrupts import run_until_signal
    from evalscribe.settings import Options
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    checked(form)
    given = Options(budget=budget, max_tokens=max_tokens, env_file=env_file)
    with Workspace(given) as workspace, RunDisplay() as display:
        found = run_of_experiment(workspace, run)
        job = rescored(workspace, found, display, scorers=scorer or (), reason=reason, version=experiment_version_id)
        done = run_until_signal(job)
    told = (
        f"Scored {pluralise(done.tries, 'stored try')} of run {done.run.id} again: "
        f"{pluralise(done.scores, 'new score')}, {pluralise(done.changed, 'verdict')} changed.",
        f"`evalscribe reports ci {done.run.id}` tells its gate.",
    )
    document(done, lambda: told, form)
    return 0
