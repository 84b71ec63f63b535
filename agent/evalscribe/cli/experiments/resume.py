"""`evalscribe experiments runs resume [EXPERIMENT] RUN`."""

from evalscribe.cli.display.formatted import Format
from evalscribe.cli.experiments.options import Budget, EnvFile, FailOnGate, MaxTokens, RunOfExperiment, Timeout, Wait


def resume(
    run: RunOfExperiment,
    budget: Budget = None,
    wait: Wait = False,
    timeout: Timeout = None,
    fail_on_gate: FailOnGate = None,
    max_tokens: MaxTokens = None,
    env_file: EnvFile = None,
    form: Format = "table",
) -> int:
    """Let a run go on that failed, was cancelled or lost its worker; what was done is not done again."""
    from evalscribe.app.experiments.find import run_of_experiment
    from evalscribe.app.experiments.launch import start_run
    from evalscribe.app.experiments.resume import resumed
    from evalscribe.cli.display.formatted import checked
    from evalscribe.cli.experiments.run import going
    from evalscribe.cli.times import seconds
    from evalscribe.settings import Options
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    checked(form)
    timeout_s = None if timeout is None else seconds(timeout)
    with Workspace(Options(budget=budget, max_tokens=max_tokens, env_file=env_file)) as workspace:
        again = resumed(workspace, run_of_experiment(workspace, run), budget)
        done = sum(workspace.store.experiment_runs.tally(again.id).values())
        start_run(workspace, again)
        told = f"Run {again.id} goes on: {done:,} of {pluralise(again.tries, 'try')} are done"
        return going(workspace, again, told, wait=wait, timeout_s=timeout_s, fail_on_gate=fail_on_gate, form=form)
