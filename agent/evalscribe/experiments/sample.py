"""The sample experiment: a dataset, two builds of a small agent, and scorers."""

from typing import Final

from evalscribe import sample
from evalscribe.experiments import datasets, deployments
from evalscribe.experiments.definitions import NewExperiment, create_experiment
from evalscribe.experiments.scorers.stored import attach_scorers
from evalscribe.model.dataset import Dataset, DatasetVersion
from evalscribe.model.experiment import ComponentTarget, Experiment, ExperimentConfig
from evalscribe.model.target import Component, Deployment
from evalscribe.sources.items import open_items
from evalscribe.workspace import Workspace

NAME: Final = "sample"
TICKETS: Final = "sample-tickets"
BUILDS: Final = {"sample-first": "first", "sample-second": "second"}
"""Names of the sample deployments, each with the name of its function in `sample/support_agent.py`."""
COMPONENT: Final = "support_agent"
SCORERS: Final = ("json_valid", '{"name": "tool_called", "config": {"tool": "search_orders"}}', "exact_match")
GATE: Final = ExperimentConfig(passed_threshold=0.9)


async def create_sample(workspace: Workspace) -> tuple[Experiment, bool]:
    """Create the sample experiment unless it exists. Returns the experiment, and whether it is new."""
    if existing := workspace.store.experiments.experiment(NAME):
        return existing, False
    version = _publish_dataset(workspace)
    builds = [await _create_build(workspace, name) for name in BUILDS]
    definition = NewExperiment(
        name=NAME,
        target=ComponentTarget(deployment_id=builds[0].id, component=builds[0].components[0]),
        dataset_id=version.dataset_id,
        dataset_version_id=version.id,
        bindings=attach_scorers(workspace, SCORERS),
        config=GATE,
    )
    return create_experiment(workspace, definition)[0], True


def _publish_dataset(workspace: Workspace) -> DatasetVersion:
    dataset = workspace.store.datasets.find(TICKETS) or _create_dataset(workspace)
    return datasets.publish_version(workspace.store.datasets, dataset, "", workspace.now()).version


def _create_dataset(workspace: Workspace) -> Dataset:
    dataset = datasets.create_dataset(
        workspace.store.datasets, TICKETS, "Questions about orders, with the answers", workspace.now()
    )
    file = sample.tickets_file()
    datasets.upload_items(
        workspace.store.datasets, dataset, file.name, lambda: open_items(file, str(file)), partial=False
    )
    return dataset


async def _create_build(workspace: Workspace, name: str) -> Deployment:
    component = Component(
        name=COMPONENT,
        kind="python",
        address=f"evalscribe.sample.support_agent:{BUILDS[name]}",
        model=f"{NAME}-{BUILDS[name]}",
    )
    build = await deployments.check_build(workspace, (component,), folder=sample.HERE, name=name)
    return deployments.record_build(workspace, build).deployment
