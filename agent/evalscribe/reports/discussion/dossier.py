"""The report under discussion, its evidence, and search through both."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from evalscribe.ids import Frozen, canonical_json, content_id
from evalscribe.judging.classifier_tools import EvidenceTools
from evalscribe.judging.prompt_text import Delimiter
from evalscribe.judging.subjects import Subject, SubjectItem, document_mark, failure_subject
from evalscribe.model.analysis import Analysis, FindingSummary, RecommendationSummary
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.model.report import proof_documents
from evalscribe.model.result import CitationTarget, ResolvedCitation
from evalscribe.model.run import Eval, Run
from evalscribe.text import one_line
from evalscribe.text import path as printed_path

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore


class AnswerCitation(Frozen):
    """One citation in an answer, with its status."""

    finding: int | None
    """Number of the cited finding; None for the report itself, or if the answer gives no number."""
    citation: ResolvedCitation
    """The citation. Its offsets are characters in `DiscussionAnswer.text`."""


class DiscussionAnswer(Frozen):
    question: str
    text: str
    """The answer as displayed. Every citation has its verified place, or is marked as unverified."""
    citations: tuple[AnswerCitation, ...] = ()
    usage: Usage = Usage()
    broken_off: str | None = None
    """Reason why the answer is incomplete or missing; None if it is complete."""

    @property
    def unverified(self) -> int:
        return sum(cited.citation.status == "unverified" for cited in self.citations)


REPORT = "report"
"""Word by which citations refer to the report."""
MOST_KEPT = 64
"""Maximum findings whose evidence is held in memory."""
MOST_LOOKED_AT = 30
"""Maximum findings for which missing evidence is reported."""


class EvidenceMissing(Exception):
    """A finding's evidence is not available. The message has the reason and how to get the evidence."""


class NumberedFinding(Frozen):
    """One numbered finding: an eval, a group of evals with a single verdict, or a task's trials with a verdict each."""

    n: int
    findings: tuple[FindingSummary, ...]
    """The finding of each eval, in the order of the report. All have the same label."""

    @property
    def first(self) -> FindingSummary:
        return self.findings[0]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(finding.eval for finding in self.findings)

    @property
    def title(self) -> str:
        return self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} evals, as {self.paths[0]}"


class ReportEvidence:
    """A report with its evidence, which is loaded from the store on first use."""

    def __init__(self, name: str, text: str, said: Analysis, store: "AnalysisStore") -> None:
        """Store the report's name, text and parsed content."""
        self.name = name
        self.text = text
        self.said = said
        self.topics = {topic.n: topic for topic in _topics(said)}
        # The evidence is older than the report, so it should not contain a hash of it; `_found` checks.
        self.fence = Delimiter(content_id(["discussion", text]), (text,))
        self._store = store
        self._evidence: dict[int, Evidence | EvidenceMissing] = {}
        self._subjects: dict[int, Subject] = {}

    def evidence(self, n: int) -> Evidence:
        """Return a finding's evidence. Raises `EvidenceMissing`."""
        if n not in self._evidence:
            self._forget()
            self._evidence[n] = self._found(n)
        found = self._evidence[n]
        if isinstance(found, EvidenceMissing):
            raise found
        return found

    def known(self) -> Iterator[tuple[int, Evidence]]:
        """Yield the available evidence of every finding, by number."""
        for n in self.topics:
            try:
                yield n, self.evidence(n)
            except EvidenceMissing:
                continue

    def missing(self) -> tuple[tuple[int, str], ...]:
        """Return number and reason for findings with missing evidence. Only the first `MOST_LOOKED_AT` are checked."""
        return tuple((n, reason) for n in islice(self.topics, MOST_LOOKED_AT) if (reason := self._reason(n)))

    def toolbox(self, n: int) -> EvidenceTools:
        """Return the tools for reading a finding's evidence. Raises `EvidenceMissing`."""
        return EvidenceTools(self.evidence(n), self.fence)

    def subject(self, n: int | None) -> Subject | None:
        """Return what citations of finding `n` (None: the report) are checked against; None if unavailable."""
        if n is None:
            return self._report
        try:
            evidence = self.evidence(n)
        except EvidenceMissing:
            return None
        if n not in self._subjects:
            self._subjects[n] = failure_subject(self.said.run.id or "", evidence)
        return self._subjects[n]

    def recommendation(self, id: str) -> RecommendationSummary | None:
        return next((item for item in self.said.recommendations if item.id == id), None)

    @cached_property
    def run(self) -> Run | None:
        """The stored run of the report. In reports that people wrote, the run's id may be abbreviated."""
        named = self.said.run.id
        if not named:
            return None
        ids = self._store.run_ids(named)
        exact = named if named in ids else ids[0] if len(ids) == 1 else None
        return self._store.get_run(exact) if exact else None

    @cached_property
    def _report(self) -> Subject:
        target = CitationTarget(kind="document", item=REPORT)
        return Subject.of(self.name, [SubjectItem(mark=REPORT, about="", text=self.text, target=target)])

    @cached_property
    def _evals(self) -> dict[str, Eval]:
        """Failed evals by printed path, and by bare name if only one has the name."""
        failures = self.run.failures if self.run else ()
        names = [one_line(eval.name) for eval in failures]
        bare = {name: eval for name, eval in zip(names, failures, strict=True) if names.count(name) == 1}
        return bare | {printed_path(eval.path): eval for eval in failures}

    def _forget(self) -> None:
        """Drop the evidence that was loaded first if the maximum is reached."""
        if len(self._evidence) >= MOST_KEPT:
            oldest = next(iter(self._evidence))
            self._evidence.pop(oldest)
            self._subjects.pop(oldest, None)

    def _reason(self, n: int) -> str | None:
        try:
            self.evidence(n)
        except EvidenceMissing as absent:
            return str(absent)
        return None

    def _found(self, n: int) -> Evidence | EvidenceMissing:
        run = self.run
        if run is None:
            return EvidenceMissing(
                f"the store has nothing of run {self.said.run.id or 'without an id'}; {how_to_get(self)}"
            )
        eval = next((self._evals[path] for path in self.topics[n].paths if path in self._evals), None)
        found = self._store.get_evidence(run.id, eval.id) if eval else None
        if isinstance(found, UnreadableEvidence):
            return EvidenceMissing(f"it could not be read: {one_line(found.reason)}")
        if found is None:
            return EvidenceMissing(f"the store has none of this eval; {how_to_get(self)}")
        if self.fence.tag in canonical_json(found):
            return EvidenceMissing("it holds the delimiter of this very discussion")
        logs = proof_documents(self.said.proofs, self.topics[n].paths)
        return found.model_copy(update={"documents": (*found.documents, *logs)}) if logs else found


def how_to_get(dossier: ReportEvidence) -> str:
    """Return the command that loads the run's evidence into the store. It has the run's URL, if known, or the id."""
    named = dossier.said.run.url or dossier.said.run.id or "RUN"
    return f"`evalscribe analyze {one_line(named)}` reads the evidence (RUN may be its URL, id or snapshot folder)"


def _topics(said: Analysis) -> Iterator[NumberedFinding]:
    """Yield findings by number, or by position in reports of people that have no numbers or use one twice."""
    groups: dict[int, list[FindingSummary]] = {}
    numbered = all(finding.n is not None for finding in said.findings) and _unambiguous(said)
    for position, finding in enumerate(said.findings, 1):
        groups.setdefault(finding.n if numbered and finding.n else position, []).append(finding)
    return (NumberedFinding(n=n, findings=tuple(members)) for n, members in groups.items())


def _unambiguous(said: Analysis) -> bool:
    """Return whether all findings with the same number belong to one group."""
    groups: dict[int | None, set[str | None]] = {}
    for finding in said.findings:
        groups.setdefault(finding.n, set()).add(finding.group or finding.eval)
    return all(len(members) == 1 for members in groups.values())


AROUND = 2
"""Lines of context on each side of a hit, and the maximum distance in lines between the words of a hit."""
MAX_HITS = 2_000
"""Maximum hits that are collected and ranked. The report is searched before the evidence."""


class SearchHit(Frozen):
    """A line with at least one of the words, and the lines around it."""

    finding: int | None
    """Number of the finding; None for the report."""
    place: str
    """The report's name, or a document's role and path."""
    line: int
    """Line number, from 1."""
    first: int
    """Line number of the first line in `lines`."""
    lines: tuple[str, ...]
    """The line with its context."""
    together: bool
    """True if the line itself contains all words."""


def search_report(dossier: ReportEvidence, words: Sequence[str], most: int) -> tuple[SearchHit, ...]:
    """Return the best hits whose lines contain all words, ignoring case. Hits in one text never overlap."""
    wanted = tuple(dict.fromkeys(word.casefold() for word in words if word))
    found = list(islice(_hits(dossier, wanted), MAX_HITS)) if wanted else []
    best: list[SearchHit] = []
    for hit in sorted(found, key=lambda hit: not hit.together):
        if len(best) < most and not any(_overlap(hit, other) for other in best):
            best.append(hit)
    return tuple(best)


def rank_report(dossier: ReportEvidence, words: Sequence[str], most: int) -> tuple[SearchHit, ...]:
    """Return hits that contain some of the words. Hits with more and rarer words come first."""
    wanted = tuple(dict.fromkeys(word.casefold() for word in words if word))
    lines: list[tuple[frozenset[str], SearchHit]] = []
    for n, place, text in _texts(dossier):
        for at, line in enumerate(text):
            folded = line.casefold()
            if len(lines) < MAX_HITS and (held := frozenset(word for word in wanted if word in folded)):
                begin = max(0, at - AROUND)
                shown = tuple(text[begin : at + AROUND + 1])
                hit = SearchHit(finding=n, place=place, line=at + 1, first=begin + 1, lines=shown, together=False)
                lines.append((held, hit))
    lines_with = Counter(word for held, _ in lines for word in held)
    lines.sort(key=lambda one: -sum(1 / lines_with[word] + 1 for word in one[0]))
    best: list[SearchHit] = []
    for _, hit in lines:
        if len(best) < most and not any(_overlap(hit, other) for other in best):
            best.append(hit)
    return tuple(best)


def _texts(dossier: ReportEvidence) -> Iterator[tuple[int | None, str, Sequence[str]]]:
    """Yield the finding's number, the name and the lines of the report and of every available document."""
    yield None, dossier.name, dossier.text.split("\n")
    for n, evidence in dossier.known():
        for document in evidence.documents:
            yield n, document_mark(document), document.lines


def _hits(dossier: ReportEvidence, wanted: tuple[str, ...]) -> Iterator[SearchHit]:
    for n, place, lines in _texts(dossier):
        yield from _in_text(n, place, lines, wanted)


def _in_text(n: int | None, place: str, lines: Sequence[str], wanted: tuple[str, ...]) -> Iterator[SearchHit]:
    folded = [line.casefold() for line in lines]
    for at, line in enumerate(folded):
        if not any(word in line for word in wanted):
            continue
        begin = max(0, at - AROUND)
        if all(_anywhere(word, folded[begin : at + AROUND + 1]) for word in wanted):
            shown = tuple(lines[begin : at + AROUND + 1])
            together = all(word in line for word in wanted)
            yield SearchHit(finding=n, place=place, line=at + 1, first=begin + 1, lines=shown, together=together)


def _anywhere(word: str, lines: Iterable[str]) -> bool:
    return any(word in line for line in lines)


def _overlap(a: SearchHit, b: SearchHit) -> bool:
    return (a.finding, a.place) == (b.finding, b.place) and abs(a.line - b.line) <= 2 * AROUND
