"""What a run says of one eval, as far as an item is made of it."""

from collections.abc import Iterable

from pydantic import JsonValue

from evalscribe import text
from evalscribe.ids import Frozen
from evalscribe.model.dataset import Item
from evalscribe.model.evidence import Document, Evidence, Role
from evalscribe.model.experiment import ItemTrial
from evalscribe.model.record import Record
from evalscribe.model.run import Eval
from evalscribe.model.transcript import AssistantMessage, Transcript, UserMessage


class Told(Frozen):
    """One eval."""

    names: tuple[str, ...]
    """What it may be called by."""
    passed: bool
    item: Item | None
    """With nothing expected; None where the run does not say what was asked."""
    output: JsonValue = None
    """What it answered."""
    expected: JsonValue = None
    """What was expected of it."""

    def expecting(self, given: tuple[JsonValue] | None) -> Item | None:
        """The given, else what it answered if it passed, else what was expected of it."""
        if self.item is None:
            return None
        expected = given[0] if given else self.output if self.passed else self.expected
        return self.item.model_copy(update={"expected_output": expected})


def of_record(record: Record, documents: Iterable[Document]) -> Told:
    """An eval of an imported run."""
    kept = tuple(documents) or record.documents
    asked = _text(kept, "task")
    if asked is None:
        asked = _said(record.transcripts, UserMessage, last=False)
    answered = _text(kept, "output")
    if answered is None:
        answered = _said(record.transcripts, AssistantMessage, last=True)
    return _told(record.run_id, record.eval, asked, answered, _text(kept, "expected"), record.transcripts)


def of_evidence(run_id: str, evidence: Evidence) -> Told:
    """A failed eval of a run that was analysed."""
    asked, answered, expected = (_text(evidence.documents, role) for role in ("task", "output", "expected"))
    return _told(run_id, evidence.eval, asked, answered, expected, ())


def of_attempt(attempt: ItemTrial, item: Item | None) -> Told:
    """A try of an experiment at this item."""
    done = attempt.item
    source: dict[str, JsonValue] = {"run": done.run_id, "eval": done.item_key, "run_item": done.id}
    transcripts = (attempt.transcript,) if attempt.transcript else ()
    update = {"expected_output": None, "events": _events(transcripts), "source": source}
    return Told(
        names=(done.item_key, f"{done.item_key}#{done.repetition}", done.id),
        passed=done.verdict == "passed",
        item=item.model_copy(update=update) if item else None,
        output=attempt.output,
        expected=item.expected_output if item else None,
    )


def _told(
    run_id: str, eval: Eval, asked: JsonValue, answered: JsonValue, expected: JsonValue, said: tuple[Transcript, ...]
) -> Told:
    untried = eval.path.rpartition("#")[0] if eval.trials > 1 else eval.path
    item = Item(
        key=text.name(untried),
        input=asked,
        metadata={"category": eval.category} if eval.category else {},
        events=_events(said),
        source={"run": run_id, "eval": eval.path, "eval_id": eval.id, "status": eval.status},
    )
    return Told(
        names=(eval.path, eval.id, untried, eval.name),
        passed=eval.status == "passed",
        item=None if asked is None else item,
        output=answered,
        expected=expected,
    )


def _text(documents: Iterable[Document], role: Role) -> JsonValue:
    """Of one document its text, of several their texts by path."""
    found = {document.path: document.text for document in documents if document.role == role}
    return None if not found else next(iter(found.values())) if len(found) == 1 else dict(found)


def _said(transcripts: Iterable[Transcript], role: type[UserMessage | AssistantMessage], *, last: bool) -> JsonValue:
    """The first or last message of a role that says something."""
    said = [one.content for each in transcripts for one in each.messages if isinstance(one, role) and one.content]
    return said[-1 if last else 0] if said else None


def _events(transcripts: Iterable[Transcript]) -> tuple[dict[str, JsonValue], ...]:
    messages = (message for transcript in transcripts for message in transcript.messages)
    return tuple({"role": one.role, **one.model_dump(mode="json", exclude_defaults=True)} for one in messages)
