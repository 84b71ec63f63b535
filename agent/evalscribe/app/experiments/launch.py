"""Start a run: its version is fixed and its row is there before any work begins."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from evalscribe.app import deployments
from evalscribe.app.experiments.create import as_wanted, checked_name, merged_config, version_of
from evalscribe.app.experiments.find import version_named
from evalscribe.app.experiments.items import number_of_items
from evalscribe.errors import UnavailableError, UsageError
from evalscribe.model.experiment import ComponentTarget, Experiment, ExperimentRun, ExperimentVersion
from evalscribe.workspace import Workspace

LOGS = "logs"
"""Folder in the store's, with what workers print."""


class Planned(NamedTuple):
    """Nothing of it is stored."""

    run: ExperimentRun
    version: ExperimentVersion
    own_version: bool
    """Whether the run has a version of its own, which the experiment does not go on from."""


def planned(
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
) -> Planned:
    """What would be run; None is as the experiment's version has it.

    Args:
        workspace: Where the experiment is.
        experiment: What is run.
        name: A label, usable as the run's id.
        version: Id or number of the experiment's version; None for the latest.
        deployment: Id or name of a candidate build.
        repetitions: How often each item is tried.
        concurrency: Tries at a time.
        budget_usd: What models may cost; None for no bound.
        config: JSON with keys of the config, which makes a version of its own for this run.

    Raises:
        UsageError: An option is wrong, or the experiment is archived.
        NotFoundError: Something named is not there.
    """
    if experiment.status == "archived":
        raise UsageError(
            f"experiment {experiment.name} is archived: `evalscribe experiments archive --undo {experiment.name}`"
        )
    tried = _version(workspace, experiment, version, config)
    run = ExperimentRun(
        id=token_hex(10),
        experiment_id=experiment.id,
        experiment_version_id=tried.id,
        dataset_version_id=tried.dataset_version_id,
        deployment_id=_deployment(workspace, tried, deployment),
        name=None if name is None else checked_name(name),
        repetitions=repetitions or tried.config.repetitions,
        concurrency=concurrency or tried.config.concurrency,
        budget_usd=budget_usd,
        items=number_of_items(workspace, tried.dataset_version_id, tried.config.split),
        created_at=workspace.now(),
    )
    return Planned(run, tried, config is not None)


def launched(workspace: Workspace, plan: Planned) -> ExperimentRun:
    """Store the run, queued. Raises `UsageError` where its name is taken meanwhile."""
    if plan.own_version:
        workspace.store.experiments.put_version(plan.version, latest=False)
    workspace.store.experiment_runs.add(plan.run)
    return plan.run


def start_run(workspace: Workspace, run: ExperimentRun) -> None:
    """Start the run's worker, with the workspace's `env_file` and `max_tokens`.

    Raises:
        UnavailableError: It cannot be started; the run has failed.
    """
    try:
        start_worker(workspace, run.id)
    except UnavailableError as error:
        workspace.store.experiment_runs.end(run.id, "failed", workspace.now(), str(error))
        raise


def start_worker(workspace: Workspace, run_id: str) -> Path:
    """Start the process that works on the run; it outlives this one. Returns the file that it writes to.

    Raises:
        UnavailableError: It cannot be started.
    """
    options = workspace.options
    given = [] if options.env_file is None else ["--env-file", str(options.env_file)]
    given += [] if options.max_tokens is None else ["--max-tokens", str(options.max_tokens)]
    log = workspace.settings.store / LOGS / f"{run_id}.log"
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    command = [sys.executable, "-m", "evalscribe", "experiments", "runs", "work", run_id, *given]
    try:
        with warnings.catch_warnings():
            # Python warns of children that nobody waits for; this one is meant to live on.
            warnings.simplefilter("ignore", ResourceWarning)
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=descriptor, stderr=descriptor, start_new_session=True
            )
    except OSError as error:
        raise UnavailableError(f"no worker could be started for run {run_id}: {error}") from error
    finally:
        os.close(descriptor)
    return log


def _version(workspace: Workspace, experiment: Experiment, named: str | None, config: str | None) -> ExperimentVersion:
    version = version_named(workspace, experiment, named)
    if config is None:
        return version
    definition = as_wanted(experiment, version)
    merged = merged_config(definition.config, config)
    return version_of(workspace, experiment.id, definition.model_copy(update={"config": merged}))


def _deployment(workspace: Workspace, version: ExperimentVersion, named: str | None) -> str | None:
    """The build that is tried: a candidate has the component by the same name and of the same type."""
    target = version.target
    if not isinstance(target, ComponentTarget):
        if named is not None:
            raise UsageError(f"--deployment-id has no meaning: the experiment's target is a {target.type}")
        return None
    if named is None:
        return target.deployment_id
    deployment = deployments.found(workspace.store.experiments, named)
    if deployment.component(target.component.name) is None:
        there = ", ".join(component.name for component in deployment.components)
        raise UsageError(
            f"--deployment-id {named}: it has no component {target.component.name}, which the experiment tries; "
            f"it has: {there}"
        )
    deployments.component_of(deployment, target.component.name, target.component.type)
    return deployment.id
