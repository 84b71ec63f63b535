"""Builds of components, recorded with the Python and the source that are here."""

import platform
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from evalscribe.app import deployments
from evalscribe.app.experiments.sample import sampled
from evalscribe.deployment import SourceState
from evalscribe.experiment import Experiment
from evalscribe.sample import tickets_file
from evalscribe.settings import Settings
from evalscribe.wiring.datasets import item_file
from evalscribe.wiring.experiments import binder, definitions, now, open_desk
from evalscribe.wiring.targets import Components, source_state


async def record_build(found: Settings, wanted: deployments.NewDeployment) -> deployments.Made:
    """Raises as `deployments.created` does."""
    with closing(definitions(found)) as opened:
        return await deployments.created(opened, wanted, Components(), _state(found), platform.python_version(), now())


async def make_sample(found: Settings) -> tuple[Experiment, bool]:
    """The sample experiment, and whether it is new."""
    with open_desk(found) as desk, item_file(str(tickets_file())) as (_, opened):
        python = platform.python_version()
        return await sampled(desk, opened, Components(), _state(found), python, binder(found, desk))


def _state(found: Settings) -> Callable[[Path], SourceState]:
    return lambda folder: source_state(found, folder)
