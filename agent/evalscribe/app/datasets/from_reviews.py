"""Reviewed failures as a dataset, on which a change of prompt, model or rule has to prove itself."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import Field

from evalscribe.app.datasets.adding import created
from evalscribe.app.datasets.labelled_failures import LabelledFailure, by_judges, by_people
from evalscribe.app.datasets.split import split_of
from evalscribe.app.datasets.upload import batches
from evalscribe.app.kept import kept
from evalscribe.app.reports.review import told
from evalscribe.failures.pack import prepare
from evalscribe.failures.prepare import evidence_fingerprint
from evalscribe.ids import Frozen
from evalscribe.model.dataset import Dataset, DatasetVersion, Item
from evalscribe.model.evidence import Evidence, EvidenceSnapshot
from evalscribe.model.experiment_storage import Datasets
from evalscribe.model.protocols import Library
from evalscribe.model.record import evidence_of
from evalscribe.model.run import Eval, Run
from evalscribe.model.storage import AddedCounts, EvalStore, Store
from evalscribe.text import name as printed
from evalscribe.workspace import Workspace

DESCRIPTION = "failures with the labels that people gave them"


class FromReviews(Frozen):
    """What became of the labels."""

    dataset_id: str
    dataset: str
    added: AddedCounts
    splits: dict[str, int]
    """Items by split."""
    labels: dict[str, int]
    """Items by label."""
    unreviewed: int = 0
    """Items whose label only a judge gave."""
    withdrawn: int = 0
    """Items of an earlier time whose failure has no label any more; they are out of the draft."""
    alike: int = 0
    """Failures left out because one that is in it ended alike and has the same label."""
    contradicted: int = 0
    """Failures left out because two reports of their run give them different labels."""
    missing: dict[str, int] = Field(default_factory=dict)
    """By run, labels of failures whose evidence is not at hand."""
    version: DatasetVersion | None = None
    """Where it was published."""


def from_reviews(
    workspace: Workspace,
    name: str,
    *,
    shares: Mapping[str, float],
    seed: int = 0,
    unreviewed: bool = False,
    publish: bool = False,
) -> FromReviews:
    """Put every labelled failure whose evidence is at hand into the dataset's draft, in place of what it had.

    Args:
        workspace: Where the reports and the evidence are.
        name: Of the dataset, which is made if there is none.
        shares: Of items by split, together 1.
        seed: Of the split.
        unreviewed: Whether failures are taken too of which a judge's label is all there is.
        publish: Whether a version is made.

    Raises:
        NotFoundError: There are no labels.
        UsageError: No dataset can have this name.
    """
    datasets = workspace.store.datasets
    people = by_people(told(workspace.reports, workspace.store.analyses))
    wanted = [*people.failures, *(_unreviewed(workspace.reports, people.failures) if unreviewed else ())]
    dataset = datasets.find(name) or created(datasets, name, DESCRIPTION, workspace.now())
    chosen, added = _Chosen(workspace.store.analyses, workspace.store.runs, shares, seed), AddedCounts()
    for some in batches(chosen.items(wanted)):
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
    """Makes items one after the other, and counts what is left out."""

    store: Store
    archive: EvalStore
    shares: Mapping[str, float]
    """Of items by split, together 1."""
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
        record = kept(self.archive, self.store, run.id, eval.id)
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
    """Of items that came out of reviews only."""
    gone = [item.key for item in datasets.draft(dataset.id) if "report" in item.source and item.key not in labelled]
    return datasets.drop(dataset.id, gone) if gone else 0
