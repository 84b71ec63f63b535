"""Make dataset items from runs and from labelled failures."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import Field, JsonValue

from evalscribe import text
from evalscribe.collections.runs import analysed_run, load_record, whole_run
from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.experiments.datasets import create_dataset, item_batches, split_of
from evalscribe.failures.prepare import evidence_fingerprint
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import Frozen
from evalscribe.judging.pack import prepare
from evalscribe.model.dataset import Dataset, DatasetVersion, Item
from evalscribe.model.evidence import Document, Evidence, EvidenceSnapshot, Role
from evalscribe.model.experiment import ExperimentRun, ItemTrial
from evalscribe.model.finding import CauseKind, Classification, HumanLabel
from evalscribe.model.record import AddedCounts, Record, evidence_of
from evalscribe.model.repository import is_of_another_kind
from evalscribe.model.run import Eval, Run
from evalscribe.model.transcript import AssistantMessage, Transcript, UserMessage
from evalscribe.reports.accuracy import labels_in_force, verdicts
from evalscribe.reports.reading import read_report
from evalscribe.reports.review import current_labels
from evalscribe.text import name as printed
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore
    from evalscribe.store.datasets import DatasetStore
    from evalscribe.store.records import RunStore


class ItemParts(Frozen):
    """Parts of an eval, from which an item can be made."""

    names: tuple[str, ...]
    """Names that select this eval."""
    passed: bool
    item: Item | None
    """The item, still without an expected output; None if the run does not record the eval's input."""
    output: JsonValue = None
    """The recorded output."""
    expected: JsonValue = None
    """The recorded expected output."""

    def expecting(self, given: tuple[JsonValue] | None) -> Item | None:
        """Return the item with the given expected output, else the output of a passed eval, else the recorded one."""
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
    """Return the text of the only document with this role, or the texts of several by path."""
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
    """Number of evals left out because the run does not record their input."""
    unknown: int = 0
    """Number of items without an expected output: the eval did not pass, and the run records none."""


def add_run_items(
    workspace: Workspace,
    dataset: Dataset,
    named: str,
    *,
    evals: Sequence[str] = (),
    failed: bool = False,
    expected: tuple[JsonValue] | None = None,
) -> AddedRunItems:
    """Add each eval of a run to the draft: its input and, if it passed, its output as the expected output.

    If it failed, the item gets the expected output that the run records, if any. Only the first trial of an eval is
    used.

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
        raise UsageError(
            "`expected_output` applies to one eval: name it with `eval`",
            fields=(
                "expected_output",
                "eval",
            ),
        )
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
    """Return the id of the run and the parts of each eval. A run of an experiment is preferred to its archived copy."""
    if (run := workspace.store.experiment_runs.run(named)) is not None:
        return run.id, _attempts(workspace, run)
    if (run_id := whole_run(workspace.store.analyses, workspace.store.runs, named)) is not None:
        return run_id, _records(workspace.store.runs, run_id)
    run_id = analysed_run(workspace.store.analyses, named)
    return run_id, _failures(workspace.store.analyses, run_id)


def _attempts(workspace: Workspace, run: ExperimentRun) -> Iterator[ItemParts]:
    for attempt in workspace.store.experiment_runs.attempts(run.id):
        yield of_attempt(attempt, workspace.store.datasets.item(run.dataset_version_id, attempt.item.item_key))


def _records(run_store: "RunStore", run_id: str) -> Iterator[ItemParts]:
    for record in run_store.records(run_id):
        yield of_record(record, run_store.documents(run_id, record.eval.id))


def _failures(store: "AnalysisStore", run_id: str) -> Iterator[ItemParts]:
    run = store.get_run(run_id)
    for eval in run.failures if run else ():
        evidence = store.get_evidence(run_id, eval.id)
        yield of_evidence(run_id, evidence if isinstance(evidence, Evidence) else Evidence(eval=eval))


class LabelledFailure(Frozen):
    run: str
    eval: str
    """Path."""
    label: Classification
    cause_kind: CauseKind | None = None
    source: dict[str, JsonValue]
    """The reviewer who gave the label, and the report with it."""

    @property
    def subject(self) -> tuple[str, str]:
        return self.run, printed(self.eval)


class PeopleLabels(Frozen):
    """Human labels of failures."""

    failures: tuple[LabelledFailure, ...]
    alike: int
    """Number of failures left out because a failure with the same cause and label is included."""
    contradicted: int
    """Number of failures left out because two reports of the same run label them differently."""


def by_people(labels: Iterable[HumanLabel]) -> PeopleLabels:
    """Select one failure from each group with the same cause and label."""
    given = tuple(labels)
    agreed = labels_in_force(given)
    chosen = verdicts(agreed)
    subjects = {(label.run, label.eval) for label in given if label.in_force}
    return PeopleLabels(
        failures=tuple(map(_given, chosen)),
        alike=len(agreed) - len(chosen),
        contradicted=len(subjects) - len(agreed),
    )


def by_judges(library: ReportsFolder) -> Iterator[LabelledFailure]:
    """Yield one failure of each unreviewed group, with the judge's label."""
    for file in library.all():
        if is_of_another_kind(file.text):
            continue
        try:
            said = read_report(file.text, file.name, file.data)
        except DataError:
            continue  # `reports check` reports what is wrong with it
        groups: set[str] = set()
        for one in said.findings:
            group = one.group or one.eval
            if one.judge is None or one.by_person or group in groups or said.run.id is None:
                continue
            groups.add(group)
            yield LabelledFailure(
                run=said.run.id,
                eval=one.eval,
                label=one.judge.classification,
                cause_kind=one.cause_kind,
                source={"report": file.name, "judge": one.judge.id},
            )


def _given(label: HumanLabel) -> LabelledFailure:
    told = {"report": label.report, "commit": label.commit, "reviewer": label.reviewer, "date": label.date}
    return LabelledFailure(
        run=label.run,
        eval=label.eval,
        label=label.label,
        cause_kind=label.cause_kind,
        source={**told, "judge": label.judge, "judged": label.judged},
    )


DESCRIPTION = "failures labelled by people"


class FromReviews(Frozen):
    """Result of exporting the labels."""

    dataset_id: str
    dataset: str
    added: AddedCounts
    splits: dict[str, int]
    """Items by split."""
    labels: dict[str, int]
    """Items by label."""
    unreviewed: int = 0
    """Number of items labelled only by a judge."""
    withdrawn: int = 0
    """Number of earlier items removed from the draft because their failure is no longer labelled."""
    alike: int = 0
    """Number of failures left out because an equivalent failure with the same label is included."""
    contradicted: int = 0
    """Number of failures left out because two reports of the same run label them differently."""
    missing: dict[str, int] = Field(default_factory=dict)
    """Number of labels, by run, that were left out because the store has no evidence of the failure."""
    version: DatasetVersion | None = None
    """The published version, if any."""


def from_reviews(
    workspace: Workspace,
    name: str,
    *,
    shares: Mapping[str, float],
    seed: int = 0,
    unreviewed: bool = False,
    publish: bool = False,
) -> FromReviews:
    """Replace the items of the dataset's draft with every labelled failure whose evidence is available.

    Args:
        workspace: Workspace of the reports and the evidence.
        name: Name of the dataset, which is created if missing.
        shares: Share of the items in each split; they sum to 1.
        seed: Seed of the split.
        unreviewed: Include failures with only a judge's label.
        publish: Publish a version.

    Raises:
        NotFoundError: There are no labels.
        UsageError: The name is invalid for a dataset.
    """
    datasets = workspace.store.datasets
    people = by_people(current_labels(workspace.reports, workspace.store.analyses))
    wanted = [*people.failures, *(_unreviewed(workspace.reports, people.failures) if unreviewed else ())]
    dataset = datasets.find(name) or create_dataset(datasets, name, DESCRIPTION, workspace.now())
    chosen, added = _Chosen(workspace.store.analyses, workspace.store.runs, shares, seed), AddedCounts()
    for some in item_batches(chosen.items(wanted)):
        added += datasets.put(dataset.id, some)
    withdrawn = _withdraw(datasets, dataset, {_key(one) for one in wanted})
    frozen = publish and datasets.draft_size(dataset.id) > 0
    return FromReviews(
        dataset_id=dataset.id,
        dataset=dataset.name,
        added=added,
        splits=dict(chosen.splits),
        labels=dict(chosen.labels),
        unreviewed=chosen.unreviewed,
        withdrawn=withdrawn,
        alike=people.alike + chosen.alike,
        contradicted=people.contradicted,
        missing=dict(chosen.missing),
        version=datasets.publish(dataset.id, workspace.now(), provenance="derived") if frozen else None,
    )


def _unreviewed(library: ReportsFolder, reviewed: Iterable[LabelledFailure]) -> Iterator[LabelledFailure]:
    known = {one.subject for one in reviewed}
    return (one for one in by_judges(library) if one.subject not in known)


@dataclass
class _Chosen:
    """Builds items from labelled failures, and counts the failures that are left out."""

    store: "AnalysisStore"
    run_store: "RunStore"
    shares: Mapping[str, float]
    """Share of the items in each split; they sum to 1."""
    seed: int
    splits: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    unreviewed: int = 0
    alike: int = 0
    _runs: dict[str, tuple[Run, Mapping[str, Eval]] | None] = field(default_factory=dict)
    _seen: set[tuple[str, str, str]] = field(default_factory=set)

    def items(self, wanted: Iterable[LabelledFailure]) -> Iterator[Item]:
        self.splits.update(dict.fromkeys(self.shares, 0))
        for one in wanted:
            if (item := self._item(one)) is not None:
                self.splits[item.split or ""] += 1
                self.labels[one.label] += 1
                self.unreviewed += "reviewer" not in one.source
                yield item

    def _item(self, one: LabelledFailure) -> Item | None:
        found = self._evidence(one)
        if found is None:
            self.missing[one.run] += 1
            return None
        run, evidence = found
        alike = (run.id, evidence_fingerprint(evidence, prepare(evidence)), one.label)
        if alike in self._seen:
            self.alike += 1
            return None
        self._seen.add(alike)
        item = _item(one, run, evidence)
        return item.model_copy(update={"split": split_of(item, self.shares, self.seed)})

    def _evidence(self, one: LabelledFailure) -> tuple[Run, Evidence] | None:
        if one.run not in self._runs:
            run = self.store.get_run(one.run)
            self._runs[one.run] = (run, {printed(eval.path): eval for eval in run.failures}) if run else None
        run, evals = self._runs[one.run] or (None, {})
        eval = evals.get(printed(one.eval))
        if run is None or eval is None:
            return None
        record = load_record(self.run_store, self.store, run.id, eval.id)
        return (run, evidence_of(record)) if record else None


def _item(one: LabelledFailure, run: Run, evidence: Evidence) -> Item:
    eval = evidence.eval
    cause = {"cause_kind": one.cause_kind} if one.cause_kind else {}
    return Item(
        key=_key(one),
        input=EvidenceSnapshot.of(run, evidence).written,
        expected_output={"classification": one.label, **cause},
        metadata={"category": eval.category} if eval.category else {},
        cluster=printed(f"{eval.category}/{eval.name}" if eval.category else eval.name),
        source={"run": one.run, "eval": one.eval, **{name: said for name, said in one.source.items() if said}},
    )


def _key(one: LabelledFailure) -> str:
    return printed(f"{one.run}/{one.eval}")


def _withdraw(datasets: "DatasetStore", dataset: Dataset, labelled: set[str]) -> int:
    """Remove items that came from reviews and whose failure is no longer labelled."""
    gone = [item.key for item in datasets.draft(dataset.id) if "report" in item.source and item.key not in labelled]
    return datasets.drop(dataset.id, gone) if gone else 0
