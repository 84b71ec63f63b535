"""The report under discussion and its evidence, with a search through both."""

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
    """One citation in an answer, with the result of its verification."""

    finding: int | None
    """Number of the cited finding. None if the report itself is cited, or if the citation has no number."""
    citation: ResolvedCitation
    """The resolved citation. The offsets in it count characters of `DiscussionAnswer.text`."""


class DiscussionAnswer(Frozen):
    question: str
    text: str
    """Text of the answer as displayed. Each citation in the text shows its verified place or is marked as
    unverified.
    """
    citations: tuple[AnswerCitation, ...] = ()
    usage: Usage = Usage()
    broken_off: str | None = None
    """Reason why the answer is incomplete or missing; None if it is complete."""

    @property
    def unverified(self) -> int:
        return sum(cited.citation.status == "unverified" for cited in self.citations)


REPORT = "report"
"""Word with which a citation refers to the report instead of to a document."""
MOST_CACHED = 64
"""Maximum number of findings whose evidence is held in memory."""
MOST_LOOKED_AT = 30
"""Maximum number of findings that are checked for missing evidence."""


class EvidenceMissing(Exception):
    """The evidence of a finding is not available.

    The message has the reason and, if the evidence can be loaded, the command that loads it.
    """


class NumberedFinding(Frozen):
    """A numbered finding of the report.

    A finding is about one eval, about a group of evals that share a verdict, or about several trials of a task that
    each have a verdict.
    """

    n: int
    findings: tuple[FindingSummary, ...]
    """The finding of each eval, in the order of the report. All findings in the tuple have the same label."""

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
    """A report and the evidence of its findings.

    The evidence of a finding is loaded from the store when it is needed for the first time.
    """

    def __init__(self, name: str, text: str, analysis: Analysis, store: "AnalysisStore") -> None:
        """Store the report's name, text and parsed content, and the store that has its evidence."""
        self.name = name
        self.text = text
        self.analysis = analysis
        self.topics = {topic.n: topic for topic in _topics(analysis)}
        # The delimiter is a hash of the report. The evidence is older than the report, so it should not contain this
        # hash. `_load_evidence` checks that it does not.
        self.delimiter = Delimiter(content_id(["discussion", text]), (text,))
        self._store = store
        self._evidence: dict[int, Evidence | EvidenceMissing] = {}
        self._subjects: dict[int, Subject] = {}

    def evidence(self, n: int) -> Evidence:
        """Return the evidence of finding `n`. Raises `EvidenceMissing` if it is not available."""
        if n not in self._evidence:
            self._forget()
            self._evidence[n] = self._load_evidence(n)
        result = self._evidence[n]
        if isinstance(result, EvidenceMissing):
            raise result
        return result

    def available_evidence(self) -> Iterator[tuple[int, Evidence]]:
        """Yield the number and the evidence of each finding whose evidence is available."""
        for n in self.topics:
            try:
                yield n, self.evidence(n)
            except EvidenceMissing:
                continue

    def missing(self) -> tuple[tuple[int, str], ...]:
        """Return the number of each finding whose evidence is missing, with the reason.

        Only the first `MOST_LOOKED_AT` findings are checked.
        """
        return tuple((n, reason) for n in islice(self.topics, MOST_LOOKED_AT) if (reason := self._reason(n)))

    def toolbox(self, n: int) -> EvidenceTools:
        """Return tools for reading the evidence of finding `n`.

        Raises `EvidenceMissing` if the evidence is not available.
        """
        return EvidenceTools(self.evidence(n), self.delimiter)

    def subject(self, n: int | None) -> Subject | None:
        """Return the texts against which citations of finding `n` are checked.

        If `n` is None, the text is the report itself. Returns None if the finding's evidence is not available.
        """
        if n is None:
            return self._report
        try:
            evidence = self.evidence(n)
        except EvidenceMissing:
            return None
        if n not in self._subjects:
            self._subjects[n] = failure_subject(self.analysis.run.id or "", evidence)
        return self._subjects[n]

    def recommendation(self, id: str) -> RecommendationSummary | None:
        return next((item for item in self.analysis.recommendations if item.id == id), None)

    @cached_property
    def run(self) -> Run | None:
        """The report's run in the store. None if the store does not have the run.

        A report that a person wrote can abbreviate the run's id. An abbreviated id is accepted if it fits only one
        stored run.
        """
        run_id = self.analysis.run.id
        if not run_id:
            return None
        ids = self._store.run_ids(run_id)
        # The id of one run can be the beginning of the id of another.
        exact = run_id if run_id in ids else ids[0] if len(ids) == 1 else None
        return self._store.get_run(exact) if exact else None

    @cached_property
    def _report(self) -> Subject:
        target = CitationTarget(kind="document", item=REPORT)
        return Subject.of(self.name, [SubjectItem(mark=REPORT, about="", text=self.text, target=target)])

    @cached_property
    def _evals(self) -> dict[str, Eval]:
        """The failed evals of the run, keyed by printed path.

        An eval with a unique bare name is also keyed by this name.
        """
        failures = self.run.failures if self.run else ()
        names = [one_line(eval.name) for eval in failures]
        counts = Counter(names)
        bare = {name: eval for name, eval in zip(names, failures, strict=True) if counts[name] == 1}
        return bare | {printed_path(eval.path): eval for eval in failures}

    def _forget(self) -> None:
        """If `MOST_CACHED` findings are held in memory, drop the evidence that was loaded first."""
        if len(self._evidence) >= MOST_CACHED:
            oldest = next(iter(self._evidence))
            self._evidence.pop(oldest)
            self._subjects.pop(oldest, None)

    def _reason(self, n: int) -> str | None:
        try:
            self.evidence(n)
        except EvidenceMissing as absent:
            return str(absent)
        return None

    def _load_evidence(self, n: int) -> Evidence | EvidenceMissing:
        run = self.run
        if run is None:
            return EvidenceMissing(
                f"the store has nothing of run {self.analysis.run.id or 'without an id'}; {how_to_get(self)}"
            )
        eval = next((self._evals[path] for path in self.topics[n].paths if path in self._evals), None)
        evidence = self._store.get_evidence(run.id, eval.id) if eval else None
        if isinstance(evidence, UnreadableEvidence):
            return EvidenceMissing(f"it could not be read: {one_line(evidence.reason)}")
        if evidence is None:
            return EvidenceMissing(f"the store has none of this eval; {how_to_get(self)}")
        if self.delimiter.tag in canonical_json(evidence):
            return EvidenceMissing("it holds the delimiter of this very discussion")
        logs = proof_documents(self.analysis.proofs, self.topics[n].paths)
        return evidence.model_copy(update={"documents": (*evidence.documents, *logs)}) if logs else evidence


def how_to_get(dossier: ReportEvidence) -> str:
    """Return a hint with the command that loads the run's evidence into the store.

    The command names the run by its URL, or by its id if the URL is not known.
    """
    run = dossier.analysis.run.url or dossier.analysis.run.id or "RUN"
    return f"`evalscribe analyze {one_line(run)}` reads the evidence (RUN may be its URL, id or snapshot folder)"


def _topics(analysis: Analysis) -> Iterator[NumberedFinding]:
    """Yield the report's findings, grouped by number.

    If numbers are missing or used for several findings, as can happen in a report that a person wrote, findings are
    numbered by their position instead.
    """
    groups: dict[int, list[FindingSummary]] = {}
    numbered = all(finding.n is not None for finding in analysis.findings) and _unambiguous(analysis)
    for position, finding in enumerate(analysis.findings, 1):
        groups.setdefault(finding.n if numbered and finding.n else position, []).append(finding)
    return (NumberedFinding(n=n, findings=tuple(members)) for n, members in groups.items())


def _unambiguous(analysis: Analysis) -> bool:
    """Return whether all findings with the same number belong to the same group."""
    groups: dict[int | None, set[str | None]] = {}
    for finding in analysis.findings:
        groups.setdefault(finding.n, set()).add(finding.group or finding.eval)
    return all(len(members) == 1 for members in groups.values())


AROUND = 2
"""Number of context lines before and after a search hit. In a search for all words, the other words must be within
this number of lines of the hit.
"""
MAX_HITS = 2_000
"""Maximum number of search hits that are collected and ranked. The report is searched first, then the evidence."""


class SearchHit(Frozen):
    """A line that contains at least one of the searched words, with the lines around it."""

    finding: int | None
    """Number of the finding to whose evidence the line belongs. None for a line of the report."""
    place: str
    """Name of the text that has the line: the report's name, or the role and path of a document."""
    line: int
    """Number of the line that contains the words, counted from 1."""
    first: int
    """Line number of the first line in `lines`."""
    lines: tuple[str, ...]
    """The line that contains the words, together with its context lines."""
    together: bool
    """True if this line alone, without the lines around it, contains all of the searched words."""


def search_report(dossier: ReportEvidence, words: Sequence[str], most: int) -> tuple[SearchHit, ...]:
    """Return the best places that contain all words within a few lines. Case is ignored.

    Places in the same text do not overlap. A line that itself contains all words ranks first.
    """
    folded_words = tuple(dict.fromkeys(word.casefold() for word in words if word))
    hits = list(islice(_hits(dossier, folded_words), MAX_HITS)) if folded_words else []
    best: list[SearchHit] = []
    for hit in sorted(hits, key=lambda hit: not hit.together):
        if len(best) < most and not any(_overlap(hit, other) for other in best):
            best.append(hit)
    return tuple(best)


def rank_report(dossier: ReportEvidence, words: Sequence[str], most: int) -> tuple[SearchHit, ...]:
    """Return lines that contain at least one of the words.

    Lines with more words, and with rarer words, rank first.
    """
    folded_words = tuple(dict.fromkeys(word.casefold() for word in words if word))
    lines: list[tuple[frozenset[str], SearchHit]] = []
    for n, place, text in _texts(dossier):
        for at, line in enumerate(text):
            folded = line.casefold()
            if len(lines) < MAX_HITS and (matched := frozenset(word for word in folded_words if word in folded)):
                begin = max(0, at - AROUND)
                excerpt = tuple(text[begin : at + AROUND + 1])
                hit = SearchHit(finding=n, place=place, line=at + 1, first=begin + 1, lines=excerpt, together=False)
                lines.append((matched, hit))
    lines_with = Counter(word for matched, _ in lines for word in matched)
    lines.sort(key=lambda entry: -sum(1 / lines_with[word] + 1 for word in entry[0]))
    best: list[SearchHit] = []
    for _, hit in lines:
        if len(best) < most and not any(_overlap(hit, other) for other in best):
            best.append(hit)
    return tuple(best)


def _texts(dossier: ReportEvidence) -> Iterator[tuple[int | None, str, Sequence[str]]]:
    """Yield each text that is searched, with its finding's number, its name and its lines.

    The report comes first and has no number. The documents of all available evidence follow.
    """
    yield None, dossier.name, dossier.text.split("\n")
    for n, evidence in dossier.available_evidence():
        for document in evidence.documents:
            yield n, document_mark(document), document.lines


def _hits(dossier: ReportEvidence, words: tuple[str, ...]) -> Iterator[SearchHit]:
    for n, place, lines in _texts(dossier):
        yield from _in_text(n, place, lines, words)


def _in_text(n: int | None, place: str, lines: Sequence[str], words: tuple[str, ...]) -> Iterator[SearchHit]:
    folded = [line.casefold() for line in lines]
    for at, line in enumerate(folded):
        if not any(word in line for word in words):
            continue
        begin = max(0, at - AROUND)
        if all(_anywhere(word, folded[begin : at + AROUND + 1]) for word in words):
            excerpt = tuple(lines[begin : at + AROUND + 1])
            together = all(word in line for word in words)
            yield SearchHit(finding=n, place=place, line=at + 1, first=begin + 1, lines=excerpt, together=together)


def _anywhere(word: str, lines: Iterable[str]) -> bool:
    return any(word in line for line in lines)


def _overlap(a: SearchHit, b: SearchHit) -> bool:
    return (a.finding, a.place) == (b.finding, b.place) and abs(a.line - b.line) <= 2 * AROUND
