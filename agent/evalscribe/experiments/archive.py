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
    """Build the grader documents of a run from its scorers.

    The documents leave out the scorers' results, so runs with the same scorers have equal documents.
    """
    return tuple(
        _document("grader", binding.spec.name, binding.spec.model_dump(mode="json", exclude={"name"}))
        for binding in bindings
    )


def trial_record(run: Run, kept: StoredTrial, grader: Sequence[Document], trials: int) -> Record:
    """Convert a trial into an eval record.

    Args:
        grader: The result of `grader_documents`.
        trials: Number of trials of each item.
    """
    item, attempt, scores = kept
    done = attempt.item
    status = STEP_STATUSES[done.verdict]
    decisive = None if status == "passed" else next(_decisive(scores), None)
    unanswered = TARGET if status == "error" else None
    return Record(
        run_id=run.id,
        eval=Eval(
            id=done.id,
            category="",
            name=done.item_key,
            trial=done.repetition,
            trials=trials,
            status=status,
            failed_step=decisive.scorer if decisive else unanswered,
            reason=done.error or (decisive.explanation if decisive else None),
        ),
        metadata=_metadata(run, item, attempt, scores),
        transcripts=_transcripts(attempt),
        steps=_steps(attempt, scores),
        documents=(*_documents(item, attempt), *grader, *_logs(attempt, scores)),
    )


def _decisive(scores: Sequence[Score]) -> Iterator[Score]:
    """Yield the required scores that kept the trial from passing: failed ones, then those without a result."""
    required = [score for score in scores if score.required]
    yield from (score for score in required if score.passed is False)
    yield from (score for score in required if score.status != "ok")


def _metadata(run: Run, item: Item, attempt: ItemTrial, scores: Sequence[Score]) -> dict[str, JsonValue]:
    numbers: dict[str, JsonValue] = {score.scorer: score.value for score in scores if score.value is not None}
    labels: dict[str, JsonValue] = {score.scorer: score.label for score in scores if score.label is not None}
    agent: dict[str, JsonValue] = {"model_name": attempt.item.model or run.model, "provider": run.provider}
    told: dict[str, JsonValue] = {"task": item.key, "scores": numbers, "agent": agent}
    more: dict[str, JsonValue] = {
        "labels": labels,
        "split": item.split,
        "cluster": item.cluster,
        "item": item.metadata,
        "duration_ms": round(attempt.item.duration_ms, 3),
        "state": attempt.state,
    }
    return told | {name: value for name, value in more.items() if value not in (None, {})}


def _transcripts(attempt: ItemTrial) -> tuple[Transcript, ...]:
    """Give the transcripts ids that are unique to the trial, since a target may reuse the same ids."""
    if attempt.transcript is None:
        return ()
    return (attempt.transcript.model_copy(update={"id": f"{attempt.item.id}-0"}),)


def _steps(attempt: ItemTrial, scores: Sequence[Score]) -> tuple[Step, ...]:
    """Return one step per scorer, or one failed step when the target gave no output to score."""
    if attempt.item.verdict == "error":
        return (Step(name=TARGET, status="failed", error=attempt.item.error),)
    return tuple(map(_step, scores))


def _step(score: Score) -> Step:
    """Convert a score into a step, which is skipped if the scorer broke or abstained."""
    if score.status != "ok":
        return Step(name=score.scorer, status="skipped", error=score.explanation)
    return Step(
        name=score.scorer,
        status="passed" if score.passed else "failed",
        error=None if score.passed else score.explanation,
    )


def _documents(item: Item, attempt: ItemTrial) -> Iterator[Document]:
    yield _document("task", "input", item.input)
    if item.expected_output is not None:
        yield _document("expected", "expected_output", item.expected_output)
    if attempt.item.status == "ok":
        yield _document("output", "output", attempt.output)


def _logs(attempt: ItemTrial, scores: Sequence[Score]) -> Iterator[Document]:
    if attempt.item.error is not None:
        yield Document(role="log", path="error.log", text=attempt.item.error)
    if attempt.log:
        yield Document(role="log", path="target.log", text=attempt.log)
    if scores:
        yield Document(role="log", path=SCORES_LOG, text="\n".join(map(_line, scores)))


def _line(score: Score) -> str:
    value = "" if score.value is None else f" {score.value:g}"
    label = "" if score.label is None else f" ({score.label})"
    return f"{score.scorer}: {word(score)}{value}{label}: {one_line(score.explanation)}"


def _document(role: Role, name: str, value: JsonValue) -> Document:
    """Build a document of text, or of JSON with one member per line, so that each member can be cited."""
    if isinstance(value, str):
        return Document(role=role, path=f"{name}.txt", text=value)
    return Document(role=role, path=f"{name}.json", text=_JSON.dump_json(value, indent=2).decode())


MOST_RECORDS = 200
"""Maximum records per write."""
ALONG = 25
"""Maximum records per write while targets are still running; small, so that no target waits long."""
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
    """Store the trials of a run so far, with its final state. Unchanged records are not rewritten."""
    archiving = RunArchive(workspace, run, version)
    for kept in stored_trials(workspace, run):
        if archiving.add(kept) == MOST_RECORDS:
            archiving.write(state, reason)
            await asyncio.sleep(0)  # Yield to other tasks, such as the heartbeat and signal handlers.
    archiving.end(state, reason)


class RunArchive:
    """Writer that stores a run as an ordinary run, a batch of records at a time."""

    def __init__(self, workspace: Workspace, run: ExperimentRun, version: ExperimentVersion) -> None:
        self._workspace = workspace
        self._run = run
        self._experiment = experiment_of(workspace, run)
        self._model = tried_model(workspace, run, version.target)
        self._grader = grader_documents(version.bindings)
        self._begun = self._told("running", None)
        self._batch: list[Record] = []
        _collection(workspace, self._experiment)

    def add(self, kept: StoredTrial) -> int:
        """Add a trial. Returns the number of records waiting to be written."""
        self._batch.append(trial_record(self._begun, kept, self._grader, self._run.repetitions))
        return len(self._batch)

    def write(self, state: RunState, reason: str | None) -> None:
        """Write the waiting records, and set the state of the run."""
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
            status=EVAL_STATUSES[state],
            status_reason="cancelled" if state == "cancelled" else reason,
            started_at=self._run.started_at,
        )


class ContinuousRunArchive:
    """Archive of a run in progress: stores finished trials in the order in which they began.

    Writing happens while targets run, so that little is left to write at the end.
    """

    def __init__(self, archiving: RunArchive) -> None:
        self._archiving = archiving
        self._begun: dict[str, Item] = {}
        """Items that are not archived yet, by run item id, in order."""
        self._done: dict[str, StoredTrial] = {}

    def begun(self, one: TrialRequest) -> None:
        self._begun[RunItem.id_of(one.run_id, one.item.key, one.repetition)] = one.item

    def done(self, attempt: ItemTrial, scores: tuple[Score, ...]) -> None:
        """Archive a finished trial. To save memory, at most `MOST_RECORDS` trials wait for a slower one."""
        self._done[attempt.item.id] = StoredTrial(self._begun[attempt.item.id], attempt, scores)
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
    """Return the provider and model whose report folder the run belongs to."""
    if target.type == "component":
        deployment = workspace.store.experiments.deployment(run.deployment_id) if run.deployment_id else None
        built = deployment.component(target.component.name) if deployment else None
        component = built or target.component
        return component.provider, component.model or component.name
    name = target.version.model if target.type == "prompt" else target.judge
    provider, slash, model = name.partition("/")
    return (provider, model) if slash else ("evalscribe", name)


def _collection(workspace: Workspace, experiment: Experiment) -> None:
    """Create the experiment's collection when its first run is archived."""
    if experiment.collection_id not in {one.id for one in workspace.store.collections.collections()}:
        workspace.store.collections.add_collection(Collection(id=experiment.collection_id, name=experiment.name))
