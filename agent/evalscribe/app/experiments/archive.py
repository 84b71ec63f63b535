"""A run of an experiment as an ordinary run in the archive, so that it can be analysed and compared like any other."""

import asyncio
from collections.abc import Iterable, Mapping
from itertools import takewhile

from evalscribe.app.experiments.find import experiment_of
from evalscribe.app.experiments.kept import KeptTry, kept_tries
from evalscribe.app.experiments.record import grader_documents, record_of
from evalscribe.experiments.trials import TrialRequest
from evalscribe.model.dataset import Item
from evalscribe.model.experiment import (
    Experiment,
    ExperimentRun,
    ExperimentVersion,
    ItemTrial,
    RunItem,
    RunState,
    TargetSpec,
)
from evalscribe.model.record import Record
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Run, RunStatus
from evalscribe.model.score import Score
from evalscribe.workspace import Workspace

MOST_RECORDS = 200
"""That are stored at once."""
ALONG = 25
"""The same while targets are waited for: none of them has to wait long for us."""
STATUSES: Mapping[RunState, RunStatus] = {
    "queued": "running",
    "running": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "failed",
}


async def archived(
    workspace: Workspace, run: ExperimentRun, version: ExperimentVersion, state: RunState, reason: str | None
) -> None:
    """Write what the run did so far, as it ended: what is there already and the same is left alone."""
    archiving = Archiving(workspace, run, version)
    for kept in kept_tries(workspace, run):
        if archiving.add(kept) == MOST_RECORDS:
            archiving.write(state, reason)
            await asyncio.sleep(0)  # Others have to be heard meanwhile: a heartbeat, a signal.
    archiving.end(state, reason)


class Archiving:
    """A run on its way into the archive, some records at a time."""

    def __init__(self, workspace: Workspace, run: ExperimentRun, version: ExperimentVersion) -> None:
        self._workspace = workspace
        self._run = run
        self._experiment = experiment_of(workspace, run)
        self._model = tried_model(workspace, run, version.target)
        self._grader = grader_documents(version.bindings)
        self._begun = self._told("running", None)
        self._batch: list[Record] = []
        _collection(workspace, self._experiment)

    def add(self, kept: KeptTry) -> int:
        """How many wait to be written."""
        self._batch.append(record_of(self._begun, kept, self._grader, self._run.repetitions))
        return len(self._batch)

    def write(self, state: RunState, reason: str | None) -> None:
        """What waits; and the run as it is in this state."""
        self._workspace.store.runs.add(self._experiment.collection_id, (self._told(state, reason),), self._batch)
        self._batch = []

    def end(self, state: RunState, reason: str | None) -> None:
        self.write(state, reason)
        self._workspace.store.experiment_runs.set_archived(self._run.id, True)

    def _told(self, state: RunState, reason: str | None) -> Run:
        provider, model = self._model
        return Run(
            id=self._run.id,
            provider=provider,
            model=model,
            experiment=self._experiment.name,
            status=STATUSES[state],
            status_reason="cancelled" if state == "cancelled" else reason,
        )


class ArchivingAlong:
    """The archive of a run that is worked on: tries in the order in which they were begun, as far as they are done.

    Who waits for targets has the time for it; at the end there is little left to write.
    """

    def __init__(self, archiving: Archiving) -> None:
        self._archiving = archiving
        self._begun: dict[str, Item] = {}
        """Not archived yet, by id of the run item, in order."""
        self._done: dict[str, KeptTry] = {}

    def begun(self, one: TrialRequest) -> None:
        self._begun[RunItem.id_of(one.run_id, one.item.key, one.repetition)] = one.item

    def done(self, attempt: ItemTrial, scores: tuple[Score, ...]) -> None:
        """A try that takes for ever keeps others waiting only so long: rather the order is lost than all memory."""
        self._done[attempt.item.id] = KeptTry(self._begun[attempt.item.id], attempt, scores)
        if len(self._done) > MOST_RECORDS:
            self._take(list(self._done))
        self._take([*takewhile(self._done.__contains__, self._begun)])

    def end(self, state: RunState, reason: str | None) -> None:
        self._take([one for one in self._begun if one in self._done])
        self._archiving.end(state, reason)

    def _take(self, ready: Iterable[str]) -> None:
        for one in ready:
            del self._begun[one]
            if self._archiving.add(self._done.pop(one)) >= ALONG:
                self._archiving.write("running", None)


def tried_model(workspace: Workspace, run: ExperimentRun, target: TargetSpec) -> tuple[str, str]:
    """Provider and model whose reports the run belongs to."""
    if target.type == "component":
        deployment = workspace.store.experiments.deployment(run.deployment_id) if run.deployment_id else None
        built = deployment.component(target.component.name) if deployment else None
        component = built or target.component
        return component.provider, component.model or component.name
    name = target.version.model if target.type == "prompt" else target.judge
    provider, slash, model = name.partition("/")
    return (provider, model) if slash else ("evalscribe", name)


def _collection(workspace: Workspace, experiment: Experiment) -> None:
    """Made with the experiment's first run."""
    if experiment.collection_id not in {one.id for one in workspace.store.collections.collections()}:
        workspace.store.collections.add_collection(Collection(id=experiment.collection_id, name=experiment.name))
