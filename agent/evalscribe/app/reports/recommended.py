"""One recommendation of a report, with all that is known about what it concerns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalscribe.app.reports.reading import found, name_of, text_of
from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.failures.pack import pack
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.finding import Recommendation
from evalscribe.model.protocols import Library
from evalscribe.model.report import Report, ReportEntry
from evalscribe.model.storage import Store
from evalscribe.reports.markdown.page import parse
from evalscribe.reports.propose.proposal import ConcernedFinding
from evalscribe.text import path as printed_path

MOST_PACKED = 3
"""Findings whose evidence is shown to the model; the others are told in the report's words."""
EVIDENCE_TOKENS = 3_000
"""Of each."""


@dataclass(frozen=True)
class Recommended:
    file: str
    """The report's name below the reports folder."""
    text: str
    """The report with its own line ends and byte order mark."""
    report: Report
    recommendation: Recommendation

    @property
    def id(self) -> str:
        return self.recommendation.id or ""

    @property
    def entries(self) -> tuple[ReportEntry, ...]:
        """The findings it is about."""
        meant = set(self.recommendation.evals)
        return tuple(entry for entry in self.report.entries if meant & set(entry.paths))


def recommended(library: Library, name: str, id: str) -> Recommended:
    """Raises `NotFoundError` for an unknown report or id, `DataError` for a report that is not ours, `UsageError`."""
    file = found(library, name)
    below, text = name_of(library, file), text_of(file)
    try:
        report = parse(text)
    except DataError as error:
        raise DataError(f"{below} cannot be read as a report of evalscribe: {error}") from None
    return Recommended(file=below, text=text, report=report, recommendation=_called(report, id.strip().upper()))


def _called(report: Report, id: str) -> Recommendation:
    numbered = [item for item in report.recommendations if item.id is not None]
    meant = next((item for item in numbered if item.id == id), None)
    if meant is None:
        there = "; ".join(f"{item.id}: {item.text}" for item in numbered) or "none that proposes a change"
        raise NotFoundError(f"the report has no recommendation {id!r}. There is {there}")
    if meant.group not in ("eval", "lint"):
        raise UsageError(f"{id} proposes no change: {meant.text}")
    return meant


def evidence_of(store: Store, subject: Recommended) -> dict[str, Evidence]:
    """What the store has of the evals that a recommendation is about, by their printed paths."""
    run = store.get_run(subject.report.run.id)
    if run is None:
        return {}
    wanted = set(subject.recommendation.evals)
    named = ((printed_path(eval.path), eval.id) for eval in run.failures)
    read = ((path, store.get_evidence(run.id, id)) for path, id in named if path in wanted)
    return {path: evidence for path, evidence in read if isinstance(evidence, Evidence)}


def others(store: Store, subject: Recommended) -> frozenset[str]:
    """Paths of the run's other evals, as far as they are known."""
    run = store.get_run(subject.report.run.id)
    named = [*(run.evals or ()), *(eval.path for eval in run.failures)] if run else []
    told = (path for entry in subject.report.entries for path in entry.paths)
    return frozenset({*map(printed_path, named), *told} - set(subject.recommendation.evals))


def concerns(subject: Recommended, evidence: dict[str, Evidence]) -> tuple[ConcernedFinding, ...]:
    """The findings, the first of them with their evidence."""
    return tuple(_concerns(subject.entries, evidence))


def _concerns(entries: Sequence[ReportEntry], evidence: dict[str, Evidence]) -> Iterator[ConcernedFinding]:
    shown = 0
    for entry in entries:
        known = next((evidence[path] for path in entry.paths if path in evidence), None)
        if known is None or shown == MOST_PACKED:
            yield ConcernedFinding(entry=entry)
        else:
            shown += 1
            yield ConcernedFinding(entry=entry, packed=pack(known, EVIDENCE_TOKENS))


def documents(evidence: dict[str, Evidence]) -> tuple[Document, ...]:
    """What belongs to the evals and not to the model."""
    return tuple(one for known in evidence.values() for one in known.of("task", "expected", "grader", "known_gaps"))


def outputs(evidence: dict[str, Evidence]) -> frozenset[str]:
    """Texts that the model wrote and that are nothing else."""
    written = {document.text for known in evidence.values() for document in known.of("output")}
    return frozenset(written - {document.text for document in documents(evidence)})
