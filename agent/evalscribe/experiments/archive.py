"""Archive a run of an experiment as an ordinary run, so that `analyze` and other commands can read it."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from pydantic import JsonValue, TypeAdapter

from evalscribe.experiments.lookup import StoredTrial, experiment_of, stored_trials
from evalscribe.experiments.run_text import word
from evalscribe.experiments.trials import TrialRequest
from evalscribe.model.dataset import Item
from evalscribe.model.evidence import Document, Role
from evalscribe.model.experiment import (
    Experiment,
    ExperimentRun,
    ExperimentVersion,
    ItemTrial,
    ItemVerdict,
    RunItem,
    RunState,
    TargetSpec,
)
from evalscribe.model.record import SCORES_LOG, Record
from evalscribe.model.rubric import Collection
from evalscribe.model.run import TARGET, Eval, EvalStatus, Run, RunStatus, Step
from evalscribe.model.score import Binding, Score
from evalscribe.model.transcript import Transcript
from evalscribe.text import one_line
from evalscribe.workspace import Workspace

STEP_STATUSES: Mapping[ItemVerdict, EvalStatus] = {
    "passed": "passed",
    "failed": "failed",
    "error": "error",
    "unscored": "incomplete",
}

_JSON = TypeAdapter(object)
"""Writes indented JSON several times as fast as the `json` module."""


def grader_documents(bindings: Sequence[Binding]) -> tuple[Document, ...]:
    """Build one document with the role `grader` for each scorer of a run.

    The documents contain no results, so runs with the same scorers have equal documents.
    """
    return tuple(
        _document("grader", binding.spec.name, binding.spec.model_dump(mode="json", exclude={"name"}))
        for binding in bindings
    )


def trial_record(run: Run, stored: StoredTrial, grader: Sequence[Document], trials: int) -> Record:
    """Convert a trial into an eval record.

    Args:
        grader: The grader documents of the run.
        trials: Number of trials of each item.
    """
    item, trial, scores = stored
    run_item = trial.item
    status = STEP_STATUSES[run_item.verdict]
    decisive = None if status == "passed" else next(_decisive_scores(scores), None)
    unanswered = TARGET if status == "error" else None
    return Record(
        run_id=run.id,
        eval=Eval(
            id=run_item.id,
            category="",
            name=run_item.item_key,
            trial=run_item.repetition,
            trials=trials,
            status=status,
            failed_step=decisive.scorer if decisive else unanswered,
            reason=run_item.error or (decisive.explanation if decisive else None),
        ),
        metadata=_metadata(run, item, trial, scores),
        transcripts=_transcripts(trial),
        steps=_steps(trial, scores),
        documents=(*_documents(item, trial), *grader, *_logs(trial, scores)),
    )


def _decisive_scores(scores: Sequence[Score]) -> Iterator[Score]:
    """Yield the scores that kept the trial from passing.

    Required scorers that failed come first, followed by required scorers without a result.
    """
    required = [score for score in scores if score.required]
    yield from (score for score in required if score.passed is False)
    yield from (score for score in required if score.status != "ok")


def _metadata(run: Run, item: Item, trial: ItemTrial, scores: Sequence[Score]) -> dict[str, JsonValue]:
    numbers: dict[str, JsonValue] = {score.scorer: score.value for score in scores if score.value is not None}
    labels: dict[str, JsonValue] = {score.scorer: score.label for score in scores if score.label is not None}
    agent: dict[str, JsonValue] = {"model_name": trial.item.model or run.model, "provider": run.provider}
    metadata: dict[str, JsonValue] = {"task": item.key, "scores": numbers, "agent": agent}
    optional: dict[str, JsonValue] = {
        "labels": labels,
        "split": item.split,
        "cluster": item.cluster,
        "item": item.metadata,
        "duration_ms": round(trial.item.duration_ms, 3),
        "state": trial.state,
    }
    return metadata | {name: value for name, value in optional.items() if value not in (None, {})}


def _transcripts(trial: ItemTrial) -> tuple[Transcript, ...]:
    """Return the trial's transcripts with new ids."""
    if trial.transcript is None:
        return ()
    # A target might use the same id in several trials.
    return (trial.transcript.model_copy(update={"id": f"{trial.item.id}-0"}),)


def _steps(trial: ItemTrial, scores: Sequence[Score]) -> tuple[Step, ...]:
    """Return one step for each scorer, or a single failed step if the target gave no output to score."""
    if trial.item.verdict == "error":
        return (Step(name=TARGET, status="failed", error=trial.item.error),)
    return tuple(map(_step, scores))


def _step(score: Score) -> Step:
    """Convert a score into a step. If the scorer broke or abstained, the step has the status `skipped`."""
    if score.status != "ok":
        return Step(name=score.scorer, status="skipped", error=score.explanation)
    return Step(
        name=score.scorer,
        status="passed" if score.passed else "failed",
        error=None if score.passed else score.explanation,
    )


def _documents(item: Item, trial: ItemTrial) -> Iterator[Document]:
    yield _document("task", "input", item.input)
    if item.expected_output is not None:
        yield _document("expected", "expected_output", item.expected_output)
    if trial.item.status == "ok":
        yield _document("output", "output", trial.output)


def _logs(trial: ItemTrial, scores: Sequence[Score]) -> Iterator[Document]:
    if trial.item.error is not None:
        yield Document(role="log", path="error.log", text=trial.item.error)
    if trial.log:
        yield Document(role="log", path="target.log", text=trial.log)
    if scores:
        yield Document(role="log", path=SCORES_LOG, text="\n".join(map(_score_line, scores)))


def _score_line(score: Score) -> str:
    value = "" if score.value is None else f" {score.value:g}"
    label = "" if score.label is None else f" ({score.label})"
    return f"{score.scorer}: {word(score)}{value}{label}: {one_line(score.explanation)}"


def _document(role: Role, name: str, value: JsonValue) -> Document:
    """Build a document from a value, as text or indented JSON.

    Each member of the JSON has its own line, so that it can be cited.
    """
    if isinstance(value, str):
        return Document(role=role, path=f"{name}.txt", text=value)
    return Document(role=role, path=f"{name}.json", text=_JSON.dump_json(value, indent=2).decode())


MOST_RECORDS = 200
"""Maximum number of records that are written to the store at a time."""
RECORDS_WHILE_RUNNING = 25
"""Maximum number of records that are written at a time while targets are still running. The number is small so that no
target waits long."""
EVAL_STATUSES: Mapping[RunState, RunStatus] = {
    "queued": "running",
    "running": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "failed",
}


async def archive_run(
    workspace: Workspace, run: ExperimentRun, version: ExperimentVersion, state: RunState, reason: str | None
) -> None:
    """Store the trials that have run so far, and the run's final state.

    Records that have not changed are not written again.
    """
    archive = RunArchive(workspace, run, version)
    for stored in stored_trials(workspace, run):
        if archive.add(stored) == MOST_RECORDS:
            archive.write(state, reason)
            await asyncio.sleep(0)  # Let other tasks run, such as the heartbeat and signal handlers.
    archive.end(state, reason)


class RunArchive:
    """Stores a run of an experiment as an ordinary run, a batch of records at a time."""

    def __init__(self, workspace: Workspace, run: ExperimentRun, version: ExperimentVersion) -> None:
        self._workspace = workspace
        self._run = run
        self._experiment = experiment_of(workspace, run)
        self._model = model_of_run(workspace, run, version.target)
        self._grader = grader_documents(version.bindings)
        self._running_run = self._archived_run("running", None)
        self._batch: list[Record] = []
        _ensure_collection(workspace, self._experiment)

    def add(self, stored: StoredTrial) -> int:
        """Add a trial. Returns the number of records waiting to be written."""
        self._batch.append(trial_record(self._running_run, stored, self._grader, self._run.repetitions))
        return len(self._batch)

    def write(self, state: RunState, reason: str | None) -> None:
        """Write the waiting records to the store, and set the state of the run."""
        self._workspace.store.runs.add(
            self._experiment.collection_id, (self._archived_run(state, reason),), self._batch
        )
        self._batch = []

    def end(self, state: RunState, reason: str | None) -> None:
        self.write(state, reason)
        self._workspace.store.experiment_runs.set_archived(self._run.id, True)

    def _archived_run(self, state: RunState, reason: str | None) -> Run:
        provider, model = self._model
        return Run(
            id=self._run.id,
            provider=provider,
            model=model,
            experiment=self._experiment.name,
            status=EVAL_STATUSES[state],
            status_reason="cancelled" if state == "cancelled" else reason,
            started_at=self._run.started_at,
        )


class ContinuousRunArchive:
    """Archive of a run in progress. Trials are written while targets run, so that little is left to write at the end.

    Finished trials are stored in the order in which they started, unless more than `MOST_RECORDS` of them wait for a
    slower trial. They are then stored without waiting for it.
    """

    def __init__(self, archive: RunArchive) -> None:
        self._archive = archive
        self._pending_items: dict[str, Item] = {}
        """Items of the trials that are not archived yet, by run item id, in the order in which the trials started."""
        self._finished: dict[str, StoredTrial] = {}

    def start(self, request: TrialRequest) -> None:
        self._pending_items[RunItem.id_of(request.run_id, request.item.key, request.repetition)] = request.item

    def finish(self, trial: ItemTrial, scores: tuple[Score, ...]) -> None:
        """Add a finished trial. Archive all trials that no longer wait for an earlier trial to finish."""
        self._finished[trial.item.id] = StoredTrial(self._pending_items[trial.item.id], trial, scores)
        # Many trials can finish while a slow one runs. Writing them early limits memory use, but changes the order.
        if len(self._finished) > MOST_RECORDS:
            self._write_trials(list(self._finished))
        self._write_trials([*takewhile(self._finished.__contains__, self._pending_items)])

    def end(self, state: RunState, reason: str | None) -> None:
        self._write_trials([item_id for item_id in self._pending_items if item_id in self._finished])
        self._archive.end(state, reason)

    def _write_trials(self, item_ids: Iterable[str]) -> None:
        for item_id in item_ids:
            del self._pending_items[item_id]
            if self._archive.add(self._finished.pop(item_id)) >= RECORDS_WHILE_RUNNING:
                self._archive.write("running", None)


def model_of_run(workspace: Workspace, run: ExperimentRun, target: TargetSpec) -> tuple[str, str]:
    """Return the provider and model that determine the run's report folder."""
    if target.type == "component":
        deployment = workspace.store.experiments.deployment(run.deployment_id) if run.deployment_id else None
        built_component = deployment.component(target.component.name) if deployment else None
        component = built_component or target.component
        return component.provider, component.model or component.name
    name = target.version.model if target.type == "prompt" else target.judge
    provider, slash, model = name.partition("/")
    return (provider, model) if slash else ("evalscribe", name)


def _ensure_collection(workspace: Workspace, experiment: Experiment) -> None:
    """Create the experiment's collection unless it exists. The collection is needed for the first archived run."""
    if experiment.collection_id not in {stored.id for stored in workspace.store.collections.collections()}:
        workspace.store.collections.add_collection(Collection(id=experiment.collection_id, name=experiment.name))
