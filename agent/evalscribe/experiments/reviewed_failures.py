"""Make a dataset from failures that have a label."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pydantic import Field, JsonValue

from evalscribe.collections.runs import load_record
from evalscribe.errors import DataError
from evalscribe.experiments.dataset_versions import split_of
from evalscribe.experiments.datasets import create_dataset, item_batches
from evalscribe.failures.prepare import evidence_fingerprint
from evalscribe.ids import Frozen
from evalscribe.judging.pack import prepare
from evalscribe.model.dataset import Dataset, DatasetVersion, Item
from evalscribe.model.evidence import Evidence, EvidenceSnapshot
from evalscribe.model.experiment_storage import Datasets
from evalscribe.model.finding import CauseKind, Classification, HumanLabel
from evalscribe.model.protocols import Library
from evalscribe.model.record import evidence_of
from evalscribe.model.repository import is_of_another_kind
from evalscribe.model.run import Eval, Run
from evalscribe.model.storage import AddedCounts, EvalStore, Store
from evalscribe.reports.agreement import truths, verdicts
from evalscribe.reports.reading import read_report
from evalscribe.reports.review import current_labels
from evalscribe.text import name as printed
from evalscribe.workspace import Workspace


class LabelledFailure(Frozen):
    run: str
    eval: str
    """Path."""
    label: Classification
    cause_kind: CauseKind | None = None
    source: dict[str, JsonValue]
    """Who gave the label, and in which report."""

    @property
    def subject(self) -> tuple[str, str]:
        return self.run, printed(self.eval)


class PeopleLabels(Frozen):
    """Human labels of failures."""

    failures: tuple[LabelledFailure, ...]
    alike: int
    """Number of failures left out because a failure with the same cause and label is included."""
    contradicted: int
    """Number of failures left out because two reports of their run label them differently."""


def by_people(labels: Iterable[HumanLabel]) -> PeopleLabels:
    """Select one failure of each group that was labelled together."""
    given = tuple(labels)
    agreed = truths(given)
    chosen = verdicts(agreed)
    subjects = {(label.run, label.eval) for label in given if label.in_force}
    return PeopleLabels(
        failures=tuple(map(_given, chosen)),
        alike=len(agreed) - len(chosen),
        contradicted=len(subjects) - len(agreed),
    )


def by_judges(library: Library) -> Iterator[LabelledFailure]:
    """Yield one failure of each group that nobody reviewed, with the judge's label."""
    for file in library.all():
        if is_of_another_kind(file.text):
            continue
        try:
            said = read_report(file.text, PurePosixPath(file.name).name)
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
    """Number of earlier items removed from the draft because their failure has no label any more."""
    alike: int = 0
    """Number of failures left out because a failure with the same ending and label is included."""
    contradicted: int = 0
    """Number of failures left out because two reports of their run label them differently."""
    missing: dict[str, int] = Field(default_factory=dict)
    """Labels of failures whose evidence is not available, by run."""
    version: DatasetVersion | None = None
    """The version, if one was published."""


def from_reviews(
    workspace: Workspace,
    name: str,
    *,
    shares: Mapping[str, float],
    seed: int = 0,
    unreviewed: bool = False,
    publish: bool = False,
) -> FromReviews:
    """Fill the dataset's draft with every labelled failure whose evidence is available, replacing its items.

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


def _unreviewed(library: Library, reviewed: Iterable[LabelledFailure]) -> Iterator[LabelledFailure]:
    known = {one.subject for one in reviewed}
    return (one for one in by_judges(library) if one.subject not in known)


@dataclass
class _Chosen:
    """Builder of items that counts what is left out."""

    store: Store
    archive: EvalStore
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
        record = load_record(self.archive, self.store, run.id, eval.id)
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


def _withdraw(datasets: Datasets, dataset: Dataset, labelled: set[str]) -> int:
    """Remove items whose failure has no label any more; only items that came from reviews."""
    gone = [item.key for item in datasets.draft(dataset.id) if "report" in item.source and item.key not in labelled]
    return datasets.drop(dataset.id, gone) if gone else 0
