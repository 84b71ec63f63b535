"""One try at an item as a record of the archive."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue, TypeAdapter

from evalscribe.app.experiments.kept import KeptTry
from evalscribe.experiments.run_text import word
from evalscribe.model.dataset import Item
from evalscribe.model.evidence import Document, Role
from evalscribe.model.experiment import ItemTrial, ItemVerdict
from evalscribe.model.record import SCORES_LOG, Record
from evalscribe.model.run import TARGET, Eval, EvalStatus, Run, Step
from evalscribe.model.score import Binding, Score
from evalscribe.model.transcript import Transcript
from evalscribe.text import one_line

STATUSES: Mapping[ItemVerdict, EvalStatus] = {
    "passed": "passed",
    "failed": "failed",
    "error": "error",
    "unscored": "incomplete",
}

_JSON = TypeAdapter(object)
"""Indents several times as fast as the standard library does."""


def grader_documents(bindings: Sequence[Binding]) -> tuple[Document, ...]:
    """The scorers of a run. What they said stands in the log: runs that were graded alike have the same grader."""
    return tuple(
        _document("grader", binding.spec.name, binding.spec.model_dump(mode="json", exclude={"name"}))
        for binding in bindings
    )


def record_of(run: Run, kept: KeptTry, grader: Sequence[Document], trials: int) -> Record:
    """`grader`: what `grader_documents` gives; `trials`: how often each item is tried."""
    item, attempt, scores = kept
    done = attempt.item
    status = STATUSES[done.verdict]
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
    """Required scorers that kept the try from passing: those that failed it before those that broke."""
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
    """Under an id of the try's own: a target may call all of its transcripts alike."""
    if attempt.transcript is None:
        return ()
    return (attempt.transcript.model_copy(update={"id": f"{attempt.item.id}-0"}),)


def _steps(attempt: ItemTrial, scores: Sequence[Score]) -> tuple[Step, ...]:
    """The scorers; of a target that gave no answer to score, its own failure."""
    if attempt.item.verdict == "error":
        return (Step(name=TARGET, status="failed", error=attempt.item.error),)
    return tuple(map(_step, scores))


def _step(score: Score) -> Step:
    """A scorer that broke or abstained graded nothing."""
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
    """Text as it is, all else as JSON with one member a line, so that each can be quoted."""
    if isinstance(value, str):
        return Document(role=role, path=f"{name}.txt", text=value)
    return Document(role=role, path=f"{name}.json", text=_JSON.dump_json(value, indent=2).decode())
