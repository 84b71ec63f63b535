"""The sample experiment: a dataset, two builds of a small agent, and what a good answer is."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from evalscribe import sample
from evalscribe.app import deployments
from evalscribe.app.datasets import adding, publish, upload
from evalscribe.app.experiment_desk import ExperimentDesk
from evalscribe.app.experiments.asked import Bind
from evalscribe.app.experiments.create import NewExperiment, created
from evalscribe.dataset import Dataset, DatasetVersion
from evalscribe.deployment import Component, Deployment, SourceState
from evalscribe.experiment import ComponentTarget, Config, Experiment
from evalscribe.ports import ItemRows

NAME: Final = "sample"
TICKETS: Final = "sample-tickets"
BUILDS: Final = {"sample-first": "first", "sample-second": "second"}
"""Deployments by name, each with a function of `sample/support_agent.py`."""
COMPONENT: Final = "support_agent"
SCORERS: Final = ("json_valid", '{"name": "tool_called", "config": {"tool": "search_orders"}}', "exact_match")
GATE: Final = Config(passed_threshold=0.9)


async def sampled(
    desk: ExperimentDesk,
    tickets: Callable[[], ItemRows],
    probe: deployments.Probe,
    state: Callable[[Path], SourceState],
    python: str,
    bind: Bind,
) -> tuple[Experiment, bool]:
    """The experiment, and whether it is new: what is there already is left as it is."""
    if there := desk.definitions.experiment(NAME):
        return there, False
    version = _published(desk, tickets)
    builds = [await _deployed(desk, name, probe, state, python) for name in BUILDS]
    wanted = NewExperiment(
        name=NAME,
        target=ComponentTarget(deployment_id=builds[0].id, component=builds[0].components[0]),
        dataset_id=version.dataset_id,
        dataset_version_id=version.id,
        bindings=bind(SCORERS, ()),
        config=GATE,
    )
    return created(desk, wanted)[0], True


def _published(desk: ExperimentDesk, tickets: Callable[[], ItemRows]) -> DatasetVersion:
    dataset = desk.datasets.find(TICKETS) or _filled(desk, tickets)
    return publish.published(desk.datasets, dataset, "", desk.now()).version


def _filled(desk: ExperimentDesk, tickets: Callable[[], ItemRows]) -> Dataset:
    dataset = adding.created(desk.datasets, TICKETS, "Questions about orders, with the answers", desk.now())
    upload.uploaded(desk.datasets, dataset, sample.tickets_file().name, tickets, partial=False)
    return dataset


async def _deployed(
    desk: ExperimentDesk, name: str, probe: deployments.Probe, state: Callable[[Path], SourceState], python: str
) -> Deployment:
    component = Component(
        name=COMPONENT,
        kind="python",
        address=f"evalscribe.sample.support_agent:{BUILDS[name]}",
        model=f"{NAME}-{BUILDS[name]}",
    )
    wanted = deployments.NewDeployment(name=name, components=(component,), folder=sample.HERE)
    return (await deployments.created(desk.definitions, wanted, probe, state, python, desk.now())).deployment
