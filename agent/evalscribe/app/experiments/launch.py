"""Start a run: its version is fixed and its row is there before any work begins."""

from secrets import token_hex
from typing import NamedTuple

from evalscribe.app import deployments
from evalscribe.app.experiment_desk import ExperimentDesk
from evalscribe.app.experiments.asked import merged_config
from evalscribe.app.experiments.create import as_wanted, checked_name, version_of
from evalscribe.app.experiments.find import version_named
from evalscribe.app.experiments.items import number_of_items
from evalscribe.app.experiments.target import component_of
from evalscribe.errors import UsageError
from evalscribe.experiment import ComponentTarget, Experiment, ExperimentRun, ExperimentVersion
from evalscribe.ids import Frozen


class NewRun(Frozen):
    """What is said of a run; None is as the experiment's version has it."""

    name: str | None = None
    version: str | None = None
    """Id or number; None: the latest."""
    deployment: str | None = None
    """Id or name of a candidate build."""
    repetitions: int | None = None
    concurrency: int | None = None
    budget_usd: float | None = None
    config: str | None = None
    """JSON with keys of the config: makes a version of its own for this run."""


class Planned(NamedTuple):
    """Nothing of it is stored."""

    run: ExperimentRun
    version: ExperimentVersion


def launched(desk: ExperimentDesk, experiment: Experiment, wanted: NewRun) -> ExperimentRun:
    """The run, queued. Raises as `planned` does."""
    run, version = planned(desk, experiment, wanted)
    if wanted.config is not None:
        desk.definitions.put_version(version, latest=False)
    desk.runs.add(run)
    return run


def planned(desk: ExperimentDesk, experiment: Experiment, wanted: NewRun) -> Planned:
    """What would be run. Raises `UsageError`, `NotFoundError` naming the option that is wrong."""
    if experiment.status == "archived":
        raise UsageError(
            f"experiment {experiment.name} is archived: `evalscribe experiments archive --undo {experiment.name}`"
        )
    version = _version(desk, experiment, wanted)
    return Planned(_run(desk, experiment, version, wanted), version)


def _run(desk: ExperimentDesk, experiment: Experiment, version: ExperimentVersion, wanted: NewRun) -> ExperimentRun:
    return ExperimentRun(
        id=token_hex(10),
        experiment_id=experiment.id,
        experiment_version_id=version.id,
        dataset_version_id=version.dataset_version_id,
        deployment_id=_deployment(desk, version, wanted.deployment),
        name=None if wanted.name is None else checked_name(wanted.name),
        repetitions=wanted.repetitions or version.config.repetitions,
        concurrency=wanted.concurrency or version.config.concurrency,
        budget_usd=wanted.budget_usd,
        items=number_of_items(desk, version.dataset_version_id, version.config.split),
        created_at=desk.now(),
    )


def _version(desk: ExperimentDesk, experiment: Experiment, wanted: NewRun) -> ExperimentVersion:
    version = version_named(desk, experiment, wanted.version)
    if wanted.config is None:
        return version
    definition = as_wanted(experiment, version)
    config = merged_config(definition.config, wanted.config)
    return version_of(desk, experiment.id, definition.model_copy(update={"config": config}))


def _deployment(desk: ExperimentDesk, version: ExperimentVersion, named: str | None) -> str | None:
    """The build that is tried: a candidate has the component by the same name and of the same type."""
    target = version.target
    if not isinstance(target, ComponentTarget):
        if named is not None:
            raise UsageError(f"--deployment-id has no meaning: the experiment's target is a {target.type}")
        return None
    if named is None:
        return target.deployment_id
    deployment = deployments.found(desk.definitions, named)
    if deployment.component(target.component.name) is None:
        there = ", ".join(component.name for component in deployment.components)
        raise UsageError(
            f"--deployment-id {named}: it has no component {target.component.name}, which the experiment tries; "
            f"it has: {there}"
        )
    component_of(deployment, target.component.name, target.component.type)
    return deployment.id
