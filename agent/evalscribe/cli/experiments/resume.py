"""`evalscribe experiments runs resume [EXPERIMENT] RUN`."""

import sys

from evalscribe.cli.experiments.options import Budget, EnvFile, FailOnGate, MaxTokens, RunOfExperiment, Timeout, Wait
from evalscribe.cli.formatted import Format


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
    from evalscribe.app.experiments.resume import resumed
    from evalscribe.cli import finish
    from evalscribe.cli.durations import seconds
    from evalscribe.cli.experiments.cancel import run_of
    from evalscribe.cli.experiments.run import await_end, start
    from evalscribe.cli.formatted import checked, made
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.experiments import open_desk

    checked(form)
    timeout_s = None if timeout is None else seconds(timeout)
    found = settings(Options(budget=budget, max_tokens=max_tokens, env_file=env_file))
    with open_desk(found) as desk:
        going = resumed(desk, run_of(desk, run), budget)
        done = sum(desk.runs.tally(going.id).values())
        start(desk, found, going, env_file, max_tokens)
        told = f"Run {going.id} goes on: {done} of {going.tries} tries are done"
        if not wait:
            made(going.id, going, told, form)
            return 0
        if form == "table":
            finish.say(told, file=sys.stderr)
        return await_end(desk, going.id, timeout_s, fail_on_gate=fail_on_gate is not False, form=form)
