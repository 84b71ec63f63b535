"""`evalscribe experiments run EXPERIMENT`."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.display.formatted import Format
from evalscribe.cli.experiments.options import (
    Budget,
    EnvFile,
    ExperimentArgument,
    FailOnGate,
    MaxTokens,
    Timeout,
    Wait,
)

if TYPE_CHECKING:
    from evalscribe.model.experiment import ExperimentRun
    from evalscribe.workspace import Workspace


def run(
    experiment: ExperimentArgument,
    wait: Wait = False,
    timeout: Timeout = None,
    fail_on_gate: FailOnGate = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A label such as pr-1234; usable as the run's id.", show_default=False),
    ] = None,
    deployment_id: Annotated[
        str | None,
        typer.Option(metavar="ID|NAME", help="A candidate build of the same component.", show_default=False),
    ] = None,
    experiment_version_id: Annotated[
        str | None, typer.Option(metavar="ID|N", help="Run this version. Default: the latest.", show_default=False)
    ] = None,
    repetitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            metavar="N",
            help="Try each item so often. Default: its config's, else 1.",
            show_default=False,
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            metavar="N",
            help="So many tries at a time. Default: its config's, else 4.",
            show_default=False,
        ),
    ] = None,
    budget: Budget = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Keys of the config that are others here; makes a version.", show_default=False
        ),
    ] = None,
    max_tokens: MaxTokens = None,
    env_file: EnvFile = None,
    form: Format = "table",
) -> int:
    """Run an experiment in a process of its own; the run's id is printed at once.

    With --wait: exit code 0 gate passed, 2 gate failed, 3 run failed or cancelled, 4 waited too long.
    """
    from evalscribe.app.experiments.find import experiment_named
    from evalscribe.app.experiments.launch import launched, planned, start_run
    from evalscribe.cli.display import finish
    from evalscribe.cli.display.formatted import checked
    from evalscribe.cli.times import seconds
    from evalscribe.settings import Options
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    checked(form)
    timeout_s = None if timeout is None else seconds(timeout)
    with Workspace(Options(budget=budget, max_tokens=max_tokens, env_file=env_file)) as workspace:
        plan = planned(
            workspace,
            experiment_named(workspace, experiment),
            name=name,
            version=experiment_version_id,
            deployment=deployment_id,
            repetitions=repetitions,
            concurrency=concurrency,
            budget_usd=workspace.settings.budget.value,
            config=config,
        )
        started = launched(workspace, plan)
        finish.notes(_own_prompts(workspace, started))
        start_run(workspace, started)
        told = f"Started run {started.id}: {pluralise(started.tries, 'try')}"
        return going(workspace, started, told, wait=wait, timeout_s=timeout_s, fail_on_gate=fail_on_gate, form=form)


def going(
    workspace: "Workspace",
    run: "ExperimentRun",
    told: str,
    *,
    wait: bool,
    timeout_s: float | None,
    fail_on_gate: bool | None,
    form: str,
) -> int:
    """What is said of a run whose worker was just started: its id, and with `wait` how it ended."""
    from evalscribe.cli.display import finish
    from evalscribe.cli.display.formatted import made
    from evalscribe.cli.experiments.ended import await_end

    if not wait:
        made(run.id, run, f"{told}; `evalscribe reports wait {run.id}` waits for it", form)
        return 0
    if form == "table":
        finish.say(told, file=sys.stderr)
        with suppress(BrokenPipeError):  # how it ends still makes the exit code
            print(run.id, flush=True)
    return await_end(workspace, run.id, timeout_s, fail_on_gate=fail_on_gate is not False, form=form)


def _own_prompts(workspace: "Workspace", run: "ExperimentRun") -> list[str]:
    """The folder may be another's: whose words a judge is asked by is told."""
    from evalscribe.app.experiments.find import version_of_run
    from evalscribe.app.scorers import own_prompts

    own = own_prompts(version_of_run(workspace, run).bindings, workspace.prompts)
    return [f"scorers ask by the workspace's own prompts: {', '.join(own)}"] if own else []
