"""A run of an experiment as an ordinary run in the archive, so that it can be analysed and compared like any other."""

import asyncio
from collections.abc import Iterator, Mapping

from evalscribe.app.experiments.desk import ExperimentDesk
from evalscribe.app.experiments.find import experiment_of
from evalscribe.app.experiments.kept import kept_tries
from evalscribe.app.experiments.record import grader_documents, record_of
from evalscribe.experiment import Experiment, ExperimentRun, ExperimentVersion, RunState, Target
from evalscribe.record import Record
from evalscribe.rubric import Collection
from evalscribe.run import Run, RunStatus

MOST_RECORDS = 200
"""That are stored at once."""
STATUSES: Mapping[RunState, RunStatus] = {
    "queued": "running",
    "running": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "failed",
}


async def archived(
    desk: ExperimentDesk, run: ExperimentRun, version: ExperimentVersion, state: RunState, reason: str | None
) -> None:
    """Write what the run did so far, as it ended: what is there already and the same is left alone."""
    experiment = experiment_of(desk, run)
    _collection(desk, experiment)
    provider, model = tried_model(desk, run, version.target)
    told = Run(
        id=run.id,
        provider=provider,
        model=model,
        experiment=experiment.name,
        status=STATUSES[state],
        status_reason="cancelled" if state == "cancelled" else reason,
    )
    batch: list[Record] = []
    first: tuple[Run, ...] = (told,)
    for record in _records(desk, told, run, version):
        batch.append(record)
        if len(batch) == MOST_RECORDS:
            desk.archive.add(experiment.collection_id, first, batch)
            first, batch = (), []
            await asyncio.sleep(0)  # Others have to be heard meanwhile: a heartbeat, a signal.
    if first or batch:
        desk.archive.add(experiment.collection_id, first, batch)
    desk.runs.set_archived(run.id, True)


def tried_model(desk: ExperimentDesk, run: ExperimentRun, target: Target) -> tuple[str, str]:
    """Provider and model whose reports the run belongs to."""
    if target.type == "component":
        deployment = desk.definitions.deployment(run.deployment_id) if run.deployment_id else None
        built = deployment.component(target.component.name) if deployment else None
        component = built or target.component
        return component.provider, component.model or component.name
    name = target.version.model if target.type == "prompt" else target.judge
    provider, slash, model = name.partition("/")
    return (provider, model) if slash else ("evalscribe", name)


def _collection(desk: ExperimentDesk, experiment: Experiment) -> None:
    """Made with the experiment's first run."""
    if experiment.collection_id not in {one.id for one in desk.shelf.collections()}:
        desk.shelf.add_collection(Collection(id=experiment.collection_id, name=experiment.name))


def _records(desk: ExperimentDesk, told: Run, run: ExperimentRun, version: ExperimentVersion) -> Iterator[Record]:
    grader = grader_documents(version.bindings)
    for kept in kept_tries(desk, run):
        yield record_of(told, kept, grader, run.repetitions)
