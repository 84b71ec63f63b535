"""Make dataset items from runs: imported runs, analysed runs, or runs of an experiment."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from evalscribe import text
from evalscribe.collections.runs import analysed_run, whole_run
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.experiments.datasets import item_batches
from evalscribe.ids import Frozen
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.evidence import Document, Evidence, Role
from evalscribe.model.experiment import ExperimentRun, ItemTrial
from evalscribe.model.record import Record
from evalscribe.model.run import Eval
from evalscribe.model.storage import AddedCounts, EvalStore, Store
from evalscribe.model.transcript import AssistantMessage, Transcript, UserMessage
from evalscribe.workspace import Workspace


class ItemParts(Frozen):
    """One eval."""

    names: tuple[str, ...]
    """Names by which a user may refer to it."""
    passed: bool
    item: Item | None
    """Item without an expected output; None if the run does not record its input."""
    output: JsonValue = None
    """Output recorded for it."""
    expected: JsonValue = None
    """Expected output recorded for it."""

    def expecting(self, given: tuple[JsonValue] | None) -> Item | None:
        """Return the item with the given expected output, else its own output if it passed, else the recorded one."""
        if self.item is None:
            return None
        expected = given[0] if given else self.output if self.passed else self.expected
        return self.item.model_copy(update={"expected_output": expected})


def of_record(record: Record, documents: Iterable[Document]) -> ItemParts:
    """Extract item parts from an eval of an imported run."""
    kept = tuple(documents) or record.documents
    asked = _text(kept, "task")
    if asked is None:
        asked = _said(record.transcripts, UserMessage, last=False)
    answered = _text(kept, "output")
    if answered is None:
        answered = _said(record.transcripts, AssistantMessage, last=True)
    return _told(record.run_id, record.eval, asked, answered, _text(kept, "expected"), record.transcripts)


def of_evidence(run_id: str, evidence: Evidence) -> ItemParts:
    """Extract item parts from a failed eval of an analysed run."""
    asked, answered, expected = (_text(evidence.documents, role) for role in ("task", "output", "expected"))
    return _told(run_id, evidence.eval, asked, answered, expected, ())


def of_attempt(attempt: ItemTrial, item: Item | None) -> ItemParts:
    """Extract item parts from a trial of an experiment's run."""
    done = attempt.item
    source: dict[str, JsonValue] = {"run": done.run_id, "eval": done.item_key, "run_item": done.id}
    transcripts = (attempt.transcript,) if attempt.transcript else ()
    update = {"expected_output": None, "events": _events(transcripts), "source": source}
    return ItemParts(
        names=(done.item_key, f"{done.item_key}#{done.repetition}", done.id),
        passed=done.verdict == "passed",
        item=item.model_copy(update=update) if item else None,
        output=attempt.output,
        expected=item.expected_output if item else None,
    )


def _told(
    run_id: str, eval: Eval, asked: JsonValue, answered: JsonValue, expected: JsonValue, said: tuple[Transcript, ...]
) -> ItemParts:
    untried = eval.path.rpartition("#")[0] if eval.trials > 1 else eval.path
    item = Item(
        key=text.name(untried),
        input=asked,
        metadata={"category": eval.category} if eval.category else {},
        events=_events(said),
        source={"run": run_id, "eval": eval.path, "eval_id": eval.id, "status": eval.status},
    )
    return ItemParts(
        names=(eval.path, eval.id, untried, eval.name),
        passed=eval.status == "passed",
        item=None if asked is None else item,
        output=answered,
        expected=expected,
    )


def _text(documents: Iterable[Document], role: Role) -> JsonValue:
    """Return the text of a single document, or the texts of several by path."""
    found = {document.path: document.text for document in documents if document.role == role}
    return None if not found else next(iter(found.values())) if len(found) == 1 else dict(found)


def _said(transcripts: Iterable[Transcript], role: type[UserMessage | AssistantMessage], *, last: bool) -> JsonValue:
    """Return the first or last message of a role that has text."""
    said = [one.content for each in transcripts for one in each.messages if isinstance(one, role) and one.content]
    return said[-1 if last else 0] if said else None


def _events(transcripts: Iterable[Transcript]) -> tuple[dict[str, JsonValue], ...]:
    messages = (message for transcript in transcripts for message in transcript.messages)
    return tuple({"role": one.role, **one.model_dump(mode="json", exclude_defaults=True)} for one in messages)


class AddedRunItems(Frozen):
    """Result of adding items from a run."""

    dataset: str
    run_id: str
    added: AddedCounts
    unusable: tuple[str, ...] = ()
    """Evals whose input the run does not record."""
    unknown: int = 0
    """Evals that did not pass and have no recorded expected output, so their items have none."""


def add_run_items(
    workspace: Workspace,
    dataset: Dataset,
    named: str,
    *,
    evals: Sequence[str] = (),
    failed: bool = False,
    expected: tuple[JsonValue] | None = None,
) -> AddedRunItems:
    """Add each eval of a run to the draft: its input, and its output if it passed.

    A failed eval contributes its expected output instead, if the run records one. Only the first trial of an eval
    is used.

    Args:
        workspace: Workspace of the run.
        dataset: Dataset whose draft is filled.
        named: Name or id of the run.
        evals: Paths or ids, or item keys of an experiment's run; empty for all.
        failed: Add only evals that did not pass.
        expected: Expected output, in place of the recorded one; for a single eval only.

    Raises:
        NotFoundError: The run or an eval does not exist.
        UsageError: A name is ambiguous.
    """
    if expected is not None and len(evals) != 1:
        raise UsageError("--expected-output applies to one eval: name it with --eval")
    run_id, told = _run(workspace, named)
    notes, added = _Notes(), AddedCounts()
    for some in item_batches(_items(_chosen(told, evals, run_id, failed=failed), expected, notes)):
        added += workspace.store.datasets.put(dataset.id, some)
    unusable = tuple(notes.unusable)
    return AddedRunItems(dataset=dataset.name, run_id=run_id, added=added, unusable=unusable, unknown=notes.unknown)


@dataclass
class _Notes:
    unusable: list[str] = field(default_factory=list)
    unknown: int = 0


def _items(chosen: Iterable[ItemParts], expected: tuple[JsonValue] | None, notes: _Notes) -> Iterator[Item]:
    seen: set[str] = set()
    for told in chosen:
        item = told.expecting(expected)
        if item is None:
            notes.unusable.append(told.names[0])
        elif item.key not in seen:
            seen.add(item.key)
            notes.unknown += item.expected_output is None and not told.passed
            yield item


def _chosen(told: Iterator[ItemParts], evals: Sequence[str], run_id: str, *, failed: bool) -> Iterable[ItemParts]:
    some = (one for one in told if not (failed and one.passed))
    if not evals:
        return some
    found = [one for one in some if not set(evals).isdisjoint(one.names)]
    known = {name for one in found for name in one.names}
    if missing := [name for name in evals if name not in known]:
        what = "failed eval" if failed else "eval"
        raise NotFoundError(f"run {run_id} has no {what} {missing[0]!r}")
    return found


def _run(workspace: Workspace, named: str) -> tuple[str, Iterator[ItemParts]]:
    """Return the id of the run and the parts of each eval. An experiment's run takes precedence over its archive."""
    if (run := workspace.store.experiment_runs.run(named)) is not None:
        return run.id, _attempts(workspace, run)
    if (run_id := whole_run(workspace.store.analyses, workspace.store.runs, named)) is not None:
        return run_id, _records(workspace.store.runs, run_id)
    run_id = analysed_run(workspace.store.analyses, named)
    return run_id, _failures(workspace.store.analyses, run_id)


def _attempts(workspace: Workspace, run: ExperimentRun) -> Iterator[ItemParts]:
    for attempt in workspace.store.experiment_runs.attempts(run.id):
        yield of_attempt(attempt, workspace.store.datasets.item(run.dataset_version_id, attempt.item.item_key))


def _records(archive: EvalStore, run_id: str) -> Iterator[ItemParts]:
    for record in archive.records(run_id):
        yield of_record(record, archive.documents(run_id, record.eval.id))


def _failures(store: Store, run_id: str) -> Iterator[ItemParts]:
    run = store.get_run(run_id)
    for eval in run.failures if run else ():
        evidence = store.get_evidence(run_id, eval.id)
        yield of_evidence(run_id, evidence if isinstance(evidence, Evidence) else Evidence(eval=eval))
