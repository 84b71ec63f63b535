"""Make dataset items from runs and from labelled failures."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import Field, JsonValue

from evalscribe import text
from evalscribe.collections.runs import analysed_run, imported_run_id, load_record
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
    """Parts of an eval from which an item can be made."""

    names: tuple[str, ...]
    """Names by which a user can select the eval."""
    passed: bool
    item: Item | None
    """The item without an expected output; None if the run does not record the eval's input."""
    output: JsonValue = None
    """The recorded output."""
    expected: JsonValue = None
    """The recorded expected output."""

    def to_item(self, override: tuple[JsonValue] | None) -> Item | None:
        """Return the item with its expected output, or None if there is no item.

        The expected output is the override, if one is given. Without an override, it is the eval's output if the eval
        passed, else the recorded expected output.
        """
        if self.item is None:
            return None
        # The override is a tuple, because the expected output can be None.
        expected = override[0] if override else self.output if self.passed else self.expected
        return self.item.model_copy(update={"expected_output": expected})


def parts_of_record(record: Record, documents: Iterable[Document]) -> ItemParts:
    """Extract an item's parts from an eval of an imported run."""
    all_documents = tuple(documents) or record.documents
    task_input = _text(all_documents, "task")
    if task_input is None:
        task_input = _message_text(record.transcripts, UserMessage, last=False)
    output = _text(all_documents, "output")
    if output is None:
        output = _message_text(record.transcripts, AssistantMessage, last=True)
    return _item_parts(
        record.run_id, record.eval, task_input, output, _text(all_documents, "expected"), record.transcripts
    )


def parts_of_evidence(run_id: str, evidence: Evidence) -> ItemParts:
    """Extract an item's parts from a failed eval of an analysed run."""
    task_input, output, expected = (_text(evidence.documents, role) for role in ("task", "output", "expected"))
    return _item_parts(run_id, evidence.eval, task_input, output, expected, ())


def parts_of_trial(trial: ItemTrial, item: Item | None) -> ItemParts:
    """Extract an item's parts from a trial of an experiment's run."""
    run_item = trial.item
    source: dict[str, JsonValue] = {"run": run_item.run_id, "eval": run_item.item_key, "run_item": run_item.id}
    transcripts = (trial.transcript,) if trial.transcript else ()
    update = {"expected_output": None, "events": _events(transcripts), "source": source}
    return ItemParts(
        names=(run_item.item_key, f"{run_item.item_key}#{run_item.repetition}", run_item.id),
        passed=run_item.verdict == "passed",
        item=item.model_copy(update=update) if item else None,
        output=trial.output,
        expected=item.expected_output if item else None,
    )


def _item_parts(
    run_id: str,
    eval: Eval,
    task_input: JsonValue,
    output: JsonValue,
    expected: JsonValue,
    transcripts: tuple[Transcript, ...],
) -> ItemParts:
    # All trials of an eval become one item, so the number of the trial is left out.
    eval_path = eval.path.rpartition("#")[0] if eval.trials > 1 else eval.path
    item = Item(
        key=text.name(eval_path),
        input=task_input,
        metadata={"category": eval.category} if eval.category else {},
        events=_events(transcripts),
        source={"run": run_id, "eval": eval.path, "eval_id": eval.id, "status": eval.status},
    )
    return ItemParts(
        names=(eval.path, eval.id, eval_path, eval.name),
        passed=eval.status == "passed",
        item=None if task_input is None else item,
        output=output,
        expected=expected,
    )


def _text(documents: Iterable[Document], role: Role) -> JsonValue:
    """Return the text of the document with the given role.

    If several documents have this role, return a dictionary of their texts by path.
    """
    texts = {document.path: document.text for document in documents if document.role == role}
    return None if not texts else next(iter(texts.values())) if len(texts) == 1 else dict(texts)


def _message_text(
    transcripts: Iterable[Transcript], role: type[UserMessage | AssistantMessage], *, last: bool
) -> JsonValue:
    """Return the text of the first or the last message of a role. Messages without text are skipped."""
    texts = [
        message.content
        for transcript in transcripts
        for message in transcript.messages
        if isinstance(message, role) and message.content
    ]
    return texts[-1 if last else 0] if texts else None


def _events(transcripts: Iterable[Transcript]) -> tuple[dict[str, JsonValue], ...]:
    messages = (message for transcript in transcripts for message in transcript.messages)
    return tuple(
        {"role": message.role, **message.model_dump(mode="json", exclude_defaults=True)} for message in messages
    )


class AddedRunItems(Frozen):
    """Result of adding items from a run."""

    dataset: str
    run_id: str
    added: AddedCounts
    unusable: tuple[str, ...] = ()
    """Paths of the evals that were left out because the run does not record their input."""
    unknown: int = 0
    """Number of items without an expected output, because their eval did not pass and the run records no expected
    output."""


def add_run_items(
    workspace: Workspace,
    dataset: Dataset,
    name_or_id: str,
    *,
    evals: Sequence[str] = (),
    failed: bool = False,
    expected: tuple[JsonValue] | None = None,
) -> AddedRunItems:
    """Add each eval of a run to the draft, as an item with the eval's input.

    If an eval passed, its output becomes the item's expected output. If an eval did not pass, the item gets the
    expected output that the run records, if any. Only the first trial of an eval is used.

    Args:
        workspace: Workspace of the run.
        dataset: Dataset whose draft is filled.
        name_or_id: Name or id of the run.
        evals: Paths or ids of evals, or item keys for a run of an experiment; empty for all evals.
        failed: Whether to add only evals that did not pass.
        expected: Expected output to use instead of the recorded expected output. Allowed only with a single eval.

    Raises:
        NotFoundError: The run or an eval does not exist.
        UsageError: A name is ambiguous.
    """
    if expected is not None and len(evals) != 1:
        raise UsageError(
            "`expected_output` can be used only for a single eval: name that eval with `eval`",
            fields=(
                "expected_output",
                "eval",
            ),
        )
    run_id, parts = _find_run(workspace, name_or_id)
    notes, added = _Notes(), AddedCounts()
    for batch in item_batches(_items(_select_parts(parts, evals, run_id, failed=failed), expected, notes)):
        added += workspace.store.datasets.put(dataset.id, batch)
    unusable = tuple(notes.unusable)
    return AddedRunItems(dataset=dataset.name, run_id=run_id, added=added, unusable=unusable, unknown=notes.unknown)


@dataclass
class _Notes:
    unusable: list[str] = field(default_factory=list)
    unknown: int = 0


def _items(all_parts: Iterable[ItemParts], expected: tuple[JsonValue] | None, notes: _Notes) -> Iterator[Item]:
    seen_keys: set[str] = set()
    for parts in all_parts:
        item = parts.to_item(expected)
        if item is None:
            notes.unusable.append(parts.names[0])
        elif item.key not in seen_keys:
            seen_keys.add(item.key)
            notes.unknown += item.expected_output is None and not parts.passed
            yield item


def _select_parts(
    all_parts: Iterator[ItemParts], evals: Sequence[str], run_id: str, *, failed: bool
) -> Iterable[ItemParts]:
    candidates = (parts for parts in all_parts if not (failed and parts.passed))
    if not evals:
        return candidates
    selected = [parts for parts in candidates if not set(evals).isdisjoint(parts.names)]
    known_names = {name for parts in selected for name in parts.names}
    if missing := [name for name in evals if name not in known_names]:
        noun = "failed eval" if failed else "eval"
        raise NotFoundError(f"run {run_id} has no {noun} {missing[0]!r}")
    return selected


def _find_run(workspace: Workspace, name_or_id: str) -> tuple[str, Iterator[ItemParts]]:
    """Return the run's id and the parts of each eval.

    If the run belongs to an experiment, its trials are read instead of its archived copy.
    """
    if (run := workspace.store.experiment_runs.run(name_or_id)) is not None:
        return run.id, _parts_of_trials(workspace, run)
    if (run_id := imported_run_id(workspace.store.analyses, workspace.store.runs, name_or_id)) is not None:
        return run_id, _parts_of_records(workspace.store.runs, run_id)
    run_id = analysed_run(workspace.store.analyses, name_or_id)
    return run_id, _parts_of_failures(workspace.store.analyses, run_id)


def _parts_of_trials(workspace: Workspace, run: ExperimentRun) -> Iterator[ItemParts]:
    for trial in workspace.store.experiment_runs.attempts(run.id):
        yield parts_of_trial(trial, workspace.store.datasets.item(run.dataset_version_id, trial.item.item_key))


def _parts_of_records(run_store: "RunStore", run_id: str) -> Iterator[ItemParts]:
    for record in run_store.records(run_id):
        yield parts_of_record(record, run_store.documents(run_id, record.eval.id))


def _parts_of_failures(store: "AnalysisStore", run_id: str) -> Iterator[ItemParts]:
    run = store.get_run(run_id)
    for eval in run.failures if run else ():
        evidence = store.get_evidence(run_id, eval.id)
        yield parts_of_evidence(run_id, evidence if isinstance(evidence, Evidence) else Evidence(eval=eval))


class LabelledFailure(Frozen):
    run: str
    eval: str
    """Path of the eval."""
    label: Classification
    cause_kind: CauseKind | None = None
    source: dict[str, JsonValue]
    """Where the label comes from: the report, and the reviewer or the judge."""

    @property
    def subject(self) -> tuple[str, str]:
        return self.run, printed(self.eval)


class PeopleLabels(Frozen):
    """Human labels of failures."""

    failures: tuple[LabelledFailure, ...]
    duplicates: int
    """Number of failures left out because another failure with the same cause and label is included."""
    contradicted: int
    """Number of failures left out because two reports of the same run label them differently."""


def select_human_labels(labels: Iterable[HumanLabel]) -> PeopleLabels:
    """Select one failure from each group of failures with the same cause and label."""
    all_labels = tuple(labels)
    agreed_labels = labels_in_force(all_labels)
    selected = verdicts(agreed_labels)
    subjects = {(label.run, label.eval) for label in all_labels if label.in_force}
    return PeopleLabels(
        failures=tuple(map(_labelled_failure, selected)),
        duplicates=len(agreed_labels) - len(selected),
        contradicted=len(subjects) - len(agreed_labels),
    )


def judge_labels(reports: ReportsFolder) -> Iterator[LabelledFailure]:
    """Yield the first unreviewed failure of each group in each report, with the judge's label."""
    for file in reports.all():
        if is_of_another_kind(file.text):
            continue
        try:
            report = read_report(file.text, file.name, file.data)
        except DataError:
            continue  # The command `reports check` describes the problem.
        groups: set[str] = set()
        for finding in report.findings:
            group = finding.group or finding.eval
            if finding.judge is None or finding.by_person or group in groups or report.run.id is None:
                continue
            groups.add(group)
            yield LabelledFailure(
                run=report.run.id,
                eval=finding.eval,
                label=finding.judge.classification,
                cause_kind=finding.cause_kind,
                source={"report": file.name, "judge": finding.judge.id},
            )


def _labelled_failure(label: HumanLabel) -> LabelledFailure:
    review = {"report": label.report, "commit": label.commit, "reviewer": label.reviewer, "date": label.date}
    return LabelledFailure(
        run=label.run,
        eval=label.eval,
        label=label.label,
        cause_kind=label.cause_kind,
        source={**review, "judge": label.judge, "judged": label.judged},
    )


DESCRIPTION = "failures labelled by people"


class FromReviews(Frozen):
    """Result of making dataset items from labelled failures."""

    dataset_id: str
    dataset: str
    added: AddedCounts
    splits: dict[str, int]
    """Number of items by split."""
    labels: dict[str, int]
    """Number of items by label."""
    unreviewed: int = 0
    """Number of items whose label was given only by a judge."""
    withdrawn: int = 0
    """Number of earlier items that were removed from the draft because their failure is no longer labelled."""
    duplicates: int = 0
    """Number of failures left out because an equivalent failure with the same label is included."""
    contradicted: int = 0
    """Number of failures left out because two reports of the same run label them differently."""
    missing: dict[str, int] = Field(default_factory=dict)
    """For each run, the number of labels left out because the store lacks the evidence of their failure."""
    version: DatasetVersion | None = None
    """The published version; None if none was published."""


def from_reviews(
    workspace: Workspace,
    name: str,
    *,
    shares: Mapping[str, float],
    seed: int = 0,
    unreviewed: bool = False,
    publish: bool = False,
) -> FromReviews:
    """Add an item to a dataset's draft for each labelled failure whose evidence is available.

    Earlier items from reviews are removed if their failure is no longer labelled.

    Args:
        workspace: Workspace of the reports and the evidence.
        name: Name of the dataset. A missing dataset is created.
        shares: Share of the items that go into each split. The shares sum to 1.
        seed: Seed that determines in which split each item is.
        unreviewed: Whether to include failures that only a judge has labelled.
        publish: Whether to publish a version.

    Raises:
        NotFoundError: There are no labels.
        UsageError: The name is invalid for a dataset.
    """
    datasets = workspace.store.datasets
    human_labels = select_human_labels(current_labels(workspace.reports, workspace.store.analyses))
    labelled = [*human_labels.failures, *(_unreviewed(workspace.reports, human_labels.failures) if unreviewed else ())]
    dataset = datasets.find(name) or create_dataset(datasets, name, DESCRIPTION, workspace.now())
    builder, added = _ItemBuilder(workspace.store.analyses, workspace.store.runs, shares, seed), AddedCounts()
    for batch in item_batches(builder.items(labelled)):
        added += datasets.put(dataset.id, batch)
    withdrawn = _withdraw(datasets, dataset, {_key(failure) for failure in labelled})
    should_publish = publish and datasets.draft_size(dataset.id) > 0
    return FromReviews(
        dataset_id=dataset.id,
        dataset=dataset.name,
        added=added,
        splits=dict(builder.splits),
        labels=dict(builder.labels),
        unreviewed=builder.unreviewed,
        withdrawn=withdrawn,
        duplicates=human_labels.duplicates + builder.duplicates,
        contradicted=human_labels.contradicted,
        missing=dict(builder.missing),
        version=datasets.publish(dataset.id, workspace.now(), provenance="derived") if should_publish else None,
    )


def _unreviewed(reports: ReportsFolder, reviewed: Iterable[LabelledFailure]) -> Iterator[LabelledFailure]:
    reviewed_subjects = {failure.subject for failure in reviewed}
    return (failure for failure in judge_labels(reports) if failure.subject not in reviewed_subjects)


@dataclass
class _ItemBuilder:
    """Builds items from labelled failures, and counts the failures that are left out."""

    store: "AnalysisStore"
    run_store: "RunStore"
    shares: Mapping[str, float]
    """Share of the items that go into each split. The shares sum to 1."""
    seed: int
    splits: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    unreviewed: int = 0
    duplicates: int = 0
    _runs: dict[str, tuple[Run, Mapping[str, Eval]] | None] = field(default_factory=dict)
    _seen_keys: set[tuple[str, str, str]] = field(default_factory=set)

    def items(self, failures: Iterable[LabelledFailure]) -> Iterator[Item]:
        self.splits.update(dict.fromkeys(self.shares, 0))
        for failure in failures:
            if (item := self._item(failure)) is not None:
                self.splits[item.split or ""] += 1
                self.labels[failure.label] += 1
                self.unreviewed += "reviewer" not in failure.source
                yield item

    def _item(self, failure: LabelledFailure) -> Item | None:
        run_and_evidence = self._evidence(failure)
        if run_and_evidence is None:
            self.missing[failure.run] += 1
            return None
        run, evidence = run_and_evidence
        key = (run.id, evidence_fingerprint(evidence, prepare(evidence)), failure.label)
        if key in self._seen_keys:
            self.duplicates += 1
            return None
        self._seen_keys.add(key)
        item = _item(failure, run, evidence)
        return item.model_copy(update={"split": split_of(item, self.shares, self.seed)})

    def _evidence(self, failure: LabelledFailure) -> tuple[Run, Evidence] | None:
        if failure.run not in self._runs:
            run = self.store.get_run(failure.run)
            self._runs[failure.run] = (run, {printed(eval.path): eval for eval in run.failures}) if run else None
        run, evals = self._runs[failure.run] or (None, {})
        eval = evals.get(printed(failure.eval))
        if run is None or eval is None:
            return None
        record = load_record(self.run_store, self.store, run.id, eval.id)
        return (run, evidence_of(record)) if record else None


def _item(failure: LabelledFailure, run: Run, evidence: Evidence) -> Item:
    eval = evidence.eval
    cause = {"cause_kind": failure.cause_kind} if failure.cause_kind else {}
    return Item(
        key=_key(failure),
        input=EvidenceSnapshot.of(run, evidence).written,
        expected_output={"classification": failure.label, **cause},
        metadata={"category": eval.category} if eval.category else {},
        # Failures of one task in several runs resemble each other, so they stay
        # in one split and count as one observation.
        cluster=printed(f"{eval.category}/{eval.name}" if eval.category else eval.name),
        source={
            "run": failure.run,
            "eval": failure.eval,
            **{name: value for name, value in failure.source.items() if value},
        },
    )


def _key(failure: LabelledFailure) -> str:
    return printed(f"{failure.run}/{failure.eval}")


def _withdraw(datasets: "DatasetStore", dataset: Dataset, labelled_keys: set[str]) -> int:
    """Remove those draft items that came from reviews and whose failure is no longer labelled."""
    withdrawn_keys = [
        item.key for item in datasets.draft(dataset.id) if "report" in item.source and item.key not in labelled_keys
    ]
    return datasets.drop(dataset.id, withdrawn_keys) if withdrawn_keys else 0
