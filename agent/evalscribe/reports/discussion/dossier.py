"""The report under discussion, its evidence, and search through both."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice

from evalscribe.ids import Frozen, canonical_json, content_id
from evalscribe.judging.classifier_tools import EvidenceTools
from evalscribe.judging.prompt_text import Delimiter
from evalscribe.judging.subjects import Subject, SubjectItem, document_mark, failure_subject
from evalscribe.model.analysis import Analysis, FindingSummary, RecommendationSummary
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.model.result import CitationTarget, ResolvedCitation
from evalscribe.model.run import Eval, Run
from evalscribe.model.storage import Store
from evalscribe.text import one_line
from evalscribe.text import path as printed_path


class AnswerCitation(Frozen):
    """One citation of an answer, and whether it holds."""

    finding: int | None
    """Number of the finding whose evidence it is of; None for the report itself, or where none was named."""
    citation: ResolvedCitation
    """Its offsets count the characters of `DiscussionAnswer.text`."""


class DiscussionAnswer(Frozen):
    question: str
    text: str
    """As it was shown: every citation with the place where it really stands, or marked as unverified."""
    citations: tuple[AnswerCitation, ...] = ()
    usage: Usage = Usage()
    broken_off: str | None = None
    """Why the answer is not whole, or not there; None where it is."""

    @property
    def unverified(self) -> int:
        return sum(cited.citation.status == "unverified" for cited in self.citations)


REPORT = "report"
"""Mark of the report in citations."""
MOST_KEPT = 64
"""Findings whose evidence is held in memory at a time."""
MOST_LOOKED_AT = 30
"""Findings that are looked at to tell whose evidence is missing."""


class EvidenceMissing(Exception):
    """There is no evidence of a finding here; says why and how to get it."""


class NumberedFinding(Frozen):
    """One numbered finding: an eval, or a group that one verdict answers for."""

    n: int
    findings: tuple[FindingSummary, ...]
    """Its members, in the order of the report; all say the same."""

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
    """Evidence is read from the store when it is first asked for."""

    def __init__(self, name: str, text: str, said: Analysis, store: Store) -> None:
        """`name` of the report, its `text`, and what it says."""
        self.name = name
        self.text = text
        self.said = said
        self.topics = {topic.n: topic for topic in _topics(said)}
        # The report is younger than the evidence, which can therefore hardly hold a hash of it; yet see `_found`.
        self.fence = Delimiter(content_id(["discussion", text]), (text,))
        self._store = store
        self._evidence: dict[int, Evidence | EvidenceMissing] = {}
        self._subjects: dict[int, Subject] = {}

    def evidence(self, n: int) -> Evidence:
        """Raises `EvidenceMissing`."""
        if n not in self._evidence:
            self._forget()
            self._evidence[n] = self._found(n)
        found = self._evidence[n]
        if isinstance(found, EvidenceMissing):
            raise found
        return found

    def known(self) -> Iterator[tuple[int, Evidence]]:
        """The evidence of every finding that the store has it of, by number."""
        for n in self.topics:
            try:
                yield n, self.evidence(n)
            except EvidenceMissing:
                continue

    def missing(self) -> tuple[tuple[int, str], ...]:
        """Findings without evidence here, and why; only the first ones are looked at."""
        return tuple((n, reason) for n in islice(self.topics, MOST_LOOKED_AT) if (reason := self._reason(n)))

    def toolbox(self, n: int) -> EvidenceTools:
        """Raises `EvidenceMissing`."""
        return EvidenceTools(self.evidence(n), self.fence)

    def subject(self, n: int | None) -> Subject | None:
        """What citations of a finding are resolved against, of the report for None; None where nothing is known."""
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
        """The stored run that the report is about; a report that people wrote may name only the start of its id."""
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
        """Failed evals by path as it is printed, and by bare name where one eval has it."""
        failures = self.run.failures if self.run else ()
        names = [one_line(eval.name) for eval in failures]
        bare = {name: eval for name, eval in zip(names, failures, strict=True) if names.count(name) == 1}
        return bare | {printed_path(eval.path): eval for eval in failures}

    def _forget(self) -> None:
        """Make room for other evidence."""
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
        return found


def how_to_get(dossier: ReportEvidence) -> str:
    """The command that reads a run's evidence into the store; the run may be reachable by its URL only."""
    named = dossier.said.run.url or dossier.said.run.id or "RUN"
    return f"`evalscribe analyze {one_line(named)}` reads the evidence (RUN may be its URL, id or snapshot folder)"


def _topics(said: Analysis) -> Iterator[NumberedFinding]:
    """By the numbers of the report; by position where a report that people wrote has none, or one twice for others."""
    groups: dict[int, list[FindingSummary]] = {}
    numbered = all(finding.n is not None for finding in said.findings) and _unambiguous(said)
    for position, finding in enumerate(said.findings, 1):
        groups.setdefault(finding.n if numbered and finding.n else position, []).append(finding)
    return (NumberedFinding(n=n, findings=tuple(members)) for n, members in groups.items())


def _unambiguous(said: Analysis) -> bool:
    """Whether findings of one number are members of one group."""
    groups: dict[int | None, set[str | None]] = {}
    for finding in said.findings:
        groups.setdefault(finding.n, set()).add(finding.group or finding.eval)
    return all(len(members) == 1 for members in groups.values())


AROUND = 2
"""Lines of context on each side, and how far apart words may stand to be found together."""
MAX_HITS = 2_000
"""Places that are weighed; the report's come first."""


class SearchHit(Frozen):
    """A line that holds one of the words at least, and the others near it."""

    finding: int | None
    """None for the report."""
    place: str
    """The report's name, or `role path`."""
    line: int
    """From 1."""
    first: int
    """Number of the first of `lines`."""
    lines: tuple[str, ...]
    """The line with those around it."""
    together: bool
    """Whether the line holds all words itself."""


def search_report(dossier: ReportEvidence, words: Sequence[str], most: int) -> tuple[SearchHit, ...]:
    """The best places that hold all words, capitals or not; two of one text are never shown with common lines."""
    wanted = tuple(dict.fromkeys(word.casefold() for word in words if word))
    found = list(islice(_hits(dossier, wanted), MAX_HITS)) if wanted else []
    best: list[SearchHit] = []
    for hit in sorted(found, key=lambda hit: not hit.together):
        if len(best) < most and not any(_overlap(hit, other) for other in best):
            best.append(hit)
    return tuple(best)


def _hits(dossier: ReportEvidence, wanted: tuple[str, ...]) -> Iterator[SearchHit]:
    yield from _in_text(None, dossier.name, dossier.text.split("\n"), wanted)
    for n, evidence in dossier.known():
        for document in evidence.documents:
            yield from _in_text(n, document_mark(document), document.lines, wanted)


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
