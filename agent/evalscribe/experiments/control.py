"""Start, wait for, cancel and resume runs."""

import asyncio
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple

from evalscribe.errors import NotFoundError, UnavailableError, UsageError
from evalscribe.experiments import deployments
from evalscribe.experiments.definitions import merged_config, new_version, validate_experiment_name, version_options
from evalscribe.experiments.lookup import (
    LOGS,
    STARTING,
    has_no_worker,
    number_of_items,
    version_named,
    version_of_run,
)
from evalscribe.model.experiment import ComponentTarget, Experiment, ExperimentRun, ExperimentVersion, ItemVerdict
from evalscribe.model.target import Deployment
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.experiment_runs import ExperimentRunStore


class PlannedRun(NamedTuple):
    """A run that is planned but not yet stored."""

    run: ExperimentRun
    version: ExperimentVersion
    own_version: bool
    """True if the version was made for this run only. Such a version does not become the experiment's latest version.
    """
    build: Deployment | None = None
    """The build that the run uses; None if the target is not a component."""
    requested_build: Deployment | None = None
    """The requested build, if the run uses a different build because the code in the requested build's folder has
    changed; otherwise None."""


def plan_run(
    workspace: Workspace,
    experiment: Experiment,
    *,
    name: str | None = None,
    version: str | None = None,
    deployment: str | None = None,
    repetitions: int | None = None,
    concurrency: int | None = None,
    budget_usd: float | None = None,
    config: str | None = None,
) -> PlannedRun:
    """Plan a run. Options that are None keep the value of the experiment's version.

    Args:
        workspace: Workspace of the experiment.
        experiment: The experiment to run.
        name: Name of the run, which can be used in place of the run's id.
        version: Id or number of the experiment's version; None for the latest.
        deployment: Id or name of the build to run; None for the build that the version names.
        repetitions: Number of trials of each item.
        concurrency: Maximum concurrent trials.
        budget_usd: Budget for model calls in US dollars; None for no limit.
        config: JSON overrides for this run, which are saved as a new experiment version.

    Raises:
        UsageError: An option is wrong, or the experiment is archived.
        NotFoundError: The version or deployment does not exist.
    """
    if experiment.status == "archived":
        raise UsageError(
            f"experiment {experiment.name} is archived: `evalscribe experiments archive --undo {experiment.name}` "
            "makes the experiment active again"
        )
    experiment_version = _version(workspace, experiment, version, config)
    requested = _deployment(workspace, experiment_version, deployment)
    # A run must name the code that it runs. Otherwise, a comparison would treat two builds as one.
    build = requested and _current_build(workspace, experiment_version, requested)
    run = ExperimentRun(
        id=token_hex(10),
        experiment_id=experiment.id,
        experiment_version_id=experiment_version.id,
        dataset_version_id=experiment_version.dataset_version_id,
        deployment_id=build and build.id,
        name=None if name is None else validate_experiment_name(name),
        repetitions=repetitions or experiment_version.config.repetitions,
        concurrency=concurrency or experiment_version.config.concurrency,
        budget_usd=budget_usd,
        items=number_of_items(workspace, experiment_version.dataset_version_id, experiment_version.config.split),
        created_at=workspace.now(),
    )
    return PlannedRun(run, experiment_version, config is not None, build, requested if requested != build else None)


def launch_run(workspace: Workspace, plan: PlannedRun) -> ExperimentRun:
    """Store a run as queued and return it. If the run's name is taken, a number is appended, such as `ci-2`."""
    if plan.own_version:
        workspace.store.experiments.put_version(plan.version, latest=False)
    if plan.build is not None:
        workspace.store.experiments.add_deployment(plan.build)
    return workspace.store.experiment_runs.add(plan.run)


def launch_notes(plan: PlannedRun, run: ExperimentRun) -> list[str]:
    """Return a note if the run's name differs from the one requested, and a note if its build does."""
    notes = []
    if run.name != plan.run.name:
        notes.append(f"the name {plan.run.name} is taken; this run is {run.name}")
    if plan.build is not None and plan.requested_build is not None:
        notes.append(
            f"the code in {plan.build.folder} has changed since build {plan.requested_build.id}; this run uses build "
            f"{plan.build.id} ({plan.build.build})"
        )
    return notes


def start_run(workspace: Workspace, run: ExperimentRun) -> None:
    """Start a run's worker. The worker gets the workspace's `env_file` and `max_tokens`.

    Raises:
        UnavailableError: The worker cannot be started; the run is then marked as failed.
    """
    try:
        start_worker(workspace, run.id)
    except UnavailableError as error:
        workspace.store.experiment_runs.end(run.id, "failed", workspace.now(), str(error))
        raise


def start_worker(workspace: Workspace, run_id: str) -> Path:
    """Start a worker process for the run and return the path of its log. The worker outlives this process.

    Raises:
        UnavailableError: The worker cannot be started.
    """
    options = workspace.options
    arguments = [] if options.env_file is None else ["--env-file", str(options.env_file)]
    arguments += [] if options.max_tokens is None else ["--max-tokens", str(options.max_tokens)]
    log = workspace.settings.store / LOGS / f"{run_id}.log"
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # `O_NOFOLLOW`, so that a symbolic link in the folder cannot redirect the log. `O_APPEND`,
    # because a resumed run continues its log.
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    command = [sys.executable, "-m", "evalscribe", "experiments", "runs", "work", run_id, *arguments]
    try:
        with warnings.catch_warnings():
            # Python warns about child processes that are never waited for. The worker is meant to outlive this process.
            warnings.simplefilter("ignore", ResourceWarning)
            # In a session of its own, the worker survives the end of the terminal and Ctrl-C in it.
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=descriptor, stderr=descriptor, start_new_session=True
            )
    except OSError as error:
        raise UnavailableError(f"could not start a worker for run {run_id}: {error}") from error
    finally:
        os.close(descriptor)
    return log


def _version(
    workspace: Workspace, experiment: Experiment, name_or_id: str | None, config: str | None
) -> ExperimentVersion:
    version = version_named(workspace, experiment, name_or_id)
    if config is None:
        return version
    definition = version_options(experiment, version)
    merged = merged_config(definition.config, config)
    return new_version(workspace, experiment.id, definition.model_copy(update={"config": merged}))


def changed_build(workspace: Workspace, run: ExperimentRun) -> Deployment | None:
    """Return the build that the run would use now, or None if the code has not changed since the run began."""
    build = workspace.store.experiments.deployment(run.deployment_id) if run.deployment_id else None
    current = build and _current_build(workspace, version_of_run(workspace, run), build)
    return current if current != build else None


def _current_build(workspace: Workspace, version: ExperimentVersion, build: Deployment) -> Deployment:
    target = version.target
    component = build.component(target.component.name) if isinstance(target, ComponentTarget) else None
    return deployments.current_build(workspace, build, component) if component else build


def _deployment(workspace: Workspace, version: ExperimentVersion, name_or_id: str | None) -> Deployment | None:
    """Find the build that the run uses.

    The build must have a component with the name and type of the experiment's component.
    """
    target = version.target
    if not isinstance(target, ComponentTarget):
        if name_or_id is not None:
            raise UsageError(
                f"`deployment_id` does not apply: the experiment's target is a {target.type}", fields=("deployment_id",)
            )
        return None
    if name_or_id is None:
        return workspace.store.experiments.deployment(target.deployment_id)
    deployment = deployments.find_deployment(workspace.store.experiments, name_or_id)
    if deployment.component(target.component.name) is None:
        names = ", ".join(component.name for component in deployment.components)
        raise UsageError(
            f"`deployment_id` {name_or_id}: the deployment has no component {target.component.name}, which the "
            f"experiment needs. Components of the deployment: {names}",
            fields=("deployment_id",),
        )
    deployments.component_of(deployment, target.component.name, target.component.type)
    return deployment


QUICK_S = 0.2
SLOW_S = 1.0
"""Maximum seconds between two polls. The pause starts at `QUICK_S` and grows up to this limit."""


ShowRun = Callable[[ExperimentRun, Mapping[ItemVerdict, int]], None]
"""Function that receives the run, and the number of the run's finished trials by verdict."""


async def wait_for_run(
    runs: "ExperimentRunStore", run_id: str, timeout_s: float | None, show: ShowRun | None = None
) -> ExperimentRun | None:
    """Wait for a run to end. Returns None if the run has not ended after `timeout_s`.

    Raises:
        NotFoundError: The run does not exist.
        UnavailableError: The run's worker is gone.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    pause = QUICK_S
    while True:
        run = runs.run(run_id)
        if run is None:
            raise NotFoundError(f"run {run_id!r} not found")
        if show is not None:
            show(run, runs.tally(run.id))
        if run.terminal:
            return run
        remaining_s = None if deadline is None else deadline - time.monotonic()
        if remaining_s is not None and remaining_s <= 0:
            return None
        _require_worker(runs, run)
        await asyncio.sleep(pause if remaining_s is None else min(pause, remaining_s))
        pause = min(SLOW_S, pause * 1.2)


def _require_worker(runs: "ExperimentRunStore", run: ExperimentRun) -> None:
    if has_no_worker(runs, run):
        raise UnavailableError(
            f"run {run.name or run.id} no longer has a worker: its worker ended without reporting"
            f"{f' ({run.worker})' if run.worker else ''}; stored results are kept.\n"
            f"Continue with `evalscribe experiments runs resume {run.id}`."
        )


PATIENCE_S = 60.0
"""Maximum seconds to wait for a cancelled run to end.

Unless the machine is busy, a worker notices the cancellation within one second and ends its child processes within two
more seconds.
"""
CLAIM_POLL_S = 0.1


async def cancel_run(workspace: Workspace, run: ExperimentRun) -> ExperimentRun:
    """Cancel a run, wait for it to end and return it.

    If the run's worker does not respond, the returned run has not ended.
    """
    if run.terminal:
        raise UsageError(f"run {run.id} has already ended: {run.state}")
    workspace.store.experiment_runs.ask_cancel(run.id)
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    # A worker releases its claim on the run shortly after it has ended the run. Until then, the run cannot be deleted
    # or resumed.
    while asyncio.get_running_loop().time() < deadline:
        with workspace.store.experiment_runs.claim(run.id) as claimed:
            if claimed:
                return _end_cancelled(workspace, run)
        await asyncio.sleep(CLAIM_POLL_S)
    return workspace.store.experiment_runs.run(run.id) or run


def _end_cancelled(workspace: Workspace, run: ExperimentRun) -> ExperimentRun:
    """Mark a run without a worker as cancelled, unless the worker has ended the run in the meantime."""
    current = workspace.store.experiment_runs.run(run.id) or run
    return current if current.terminal else workspace.store.experiment_runs.end(run.id, "cancelled", workspace.now())


def resume_run(workspace: Workspace, run: ExperimentRun, budget_usd: float | None) -> ExperimentRun:
    """Prepare a run to be resumed and return it. The caller then starts the worker.

    Stored trials are not repeated.

    Raises:
        UsageError: The run is completed, so nothing is left to do.
        UnavailableError: A worker is already running the run.
    """
    if run.state == "completed" and run.archived:
        raise UsageError(
            f"run {run.id} is completed, so it cannot be resumed; `evalscribe experiments run` starts another run"
        )
    with workspace.store.experiment_runs.claim(run.id) as claimed:
        if not claimed:
            raise UnavailableError(f"run {run.id} already has a worker: {run.worker or 'another process'}")
        if budget_usd is not None:
            workspace.store.experiment_runs.set_budget(run.id, budget_usd)
        # Marked as starting, so that a slow start is not mistaken for a lost worker.
        return workspace.store.experiment_runs.begin(run.id, STARTING, workspace.now(), resumed=True)
