"""What a discussion is about: one report, its findings by number, and the evidence that the store has of them."""

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from evalscribe.ids import Frozen, canonical_json, content_id
from evalscribe.judging.classifier_tools import EvidenceTools
from evalscribe.judging.prompt_text import Delimiter
from evalscribe.judging.subjects import Subject, SubjectItem, failure_subject
from evalscribe.model.analysis import Analysis, FindingSummary, RecommendationSummary
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.model.result import CitationTarget
from evalscribe.model.run import Eval, Run
from evalscribe.model.storage import Store
from evalscribe.text import one_line
from evalscribe.text import path as printed_path

REPORT = "report"
"""Mark of the report in citations."""
MOST_KEPT = 64
"""Findings whose evidence is held in memory at a time."""
MOST_LOOKED_AT = 30
"""Findings that are looked at to tell whose evidence is missing."""


class Absent(Exception):
    """There is no evidence of a finding here; says why and how to get it."""


class Topic(Frozen):
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


class Dossier:
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
        self._evidence: dict[int, Evidence | Absent] = {}
        self._subjects: dict[int, Subject] = {}

    def evidence(self, n: int) -> Evidence:
        """Raises `Absent`."""
        if n not in self._evidence:
            self._forget()
            self._evidence[n] = self._found(n)
        found = self._evidence[n]
        if isinstance(found, Absent):
            raise found
        return found

    def known(self) -> Iterator[tuple[int, Evidence]]:
        """The evidence of every finding that the store has it of, by number."""
        for n in self.topics:
            try:
                yield n, self.evidence(n)
            except Absent:
                continue

    def missing(self) -> tuple[tuple[int, str], ...]:
        """Findings without evidence here, and why; only the first ones are looked at."""
        return tuple((n, reason) for n in islice(self.topics, MOST_LOOKED_AT) if (reason := self._reason(n)))

    def toolbox(self, n: int) -> EvidenceTools:
        """Raises `Absent`."""
        return EvidenceTools(self.evidence(n), self.fence)

    def subject(self, n: int | None) -> Subject | None:
        """What citations of a finding are resolved against, of the report for None; None where nothing is known."""
        if n is None:
            return self._report
        try:
            evidence = self.evidence(n)
        except Absent:
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
        except Absent as absent:
            return str(absent)
        return None

    def _found(self, n: int) -> Evidence | Absent:
        run = self.run
        if run is None:
            return Absent(f"the store has nothing of run {self.said.run.id or 'without an id'}; {how_to_get(self)}")
        eval = next((self._evals[path] for path in self.topics[n].paths if path in self._evals), None)
        found = self._store.get_evidence(run.id, eval.id) if eval else None
        if isinstance(found, UnreadableEvidence):
            return Absent(f"it could not be read: {one_line(found.reason)}")
        if found is None:
            return Absent(f"the store has none of this eval; {how_to_get(self)}")
        if self.fence.tag in canonical_json(found):
            return Absent("it holds the delimiter of this very discussion")
        return found


def how_to_get(dossier: Dossier) -> str:
    """The command that reads a run's evidence into the store; the run may be reachable by its URL only."""
    named = dossier.said.run.url or dossier.said.run.id or "RUN"
    return f"`evalscribe analyze {one_line(named)}` reads the evidence (RUN may be its URL, id or snapshot folder)"


def _topics(said: Analysis) -> Iterator[Topic]:
    """By the numbers of the report; by position where a report that people wrote has none, or one twice for others."""
    groups: dict[int, list[FindingSummary]] = {}
    numbered = all(finding.n is not None for finding in said.findings) and _unambiguous(said)
    for position, finding in enumerate(said.findings, 1):
        groups.setdefault(finding.n if numbered and finding.n else position, []).append(finding)
    return (Topic(n=n, findings=tuple(members)) for n, members in groups.items())


def _unambiguous(said: Analysis) -> bool:
    """Whether findings of one number are members of one group."""
    groups: dict[int | None, set[str | None]] = {}
    for finding in said.findings:
        groups.setdefault(finding.n, set()).add(finding.group or finding.eval)
    return all(len(members) == 1 for members in groups.values())
