"""The page of a failed eval with all of its evidence, and the pages of its long documents."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from shlex import quote

from evalscribe.errors import EvalscribeError
from evalscribe.evidence.differences import pair_documents, positions
from evalscribe.judging.pack import is_boilerplate
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.evidence import ROLES, Evidence, UnreadableEvidence
from evalscribe.text import path as eval_name
from evalscribe.web.conversation import ConversationMessage, RecordedConversation, recorded_turns
from evalscribe.web.documents import LineBlock, LineSpan, PagedDocument, PairPart, page_documents, pair_parts
from evalscribe.web.inbox import Card
from evalscribe.web.report_index import Entry, LoadedReport
from evalscribe.web.site import Page, Pages, Query, Site, slug

ROOM_CHARACTERS, ROOM_LINES = 400_000, 6_000
"""Maximum total characters and lines of the documents that an eval's page shows in full.

The other documents have separate pages.
"""
LONGEST_QUERY = 200
MOST_RESULTS = 50
"""Maximum number of documents in the results of a search."""
TITLES = {
    "task": "Task",
    "output": "Output and expected",
    "grader": "Grader",
    "log": "Log",
    "transcript": "Transcript",
    "known_gaps": "Known gaps",
}
"""Titles of the page's sections, keyed by the role of their documents.

Expected documents are shown beside the outputs, in the same section.
"""
_PATH = re.compile(r"run/([^/]+)/eval/([^/]+?)(?:\.html|~/([1-9]\d{0,6})-([1-9]\d{0,6})\.html)")


@dataclass(frozen=True)
class ShownEval:
    """A failed eval of a report."""

    report: LoadedReport
    entry: Entry
    finding: FindingSummary

    @property
    def path(self) -> str:
        return f"run/{slug(self.report.run)}/eval/{slug(self.finding.eval)}.html"

    @property
    def folder(self) -> str:
        """Name of the folder that contains the pages of the eval's documents.

        It cannot equal the name of an eval's page, because no slug ends with `~`.
        """
        return f"{slug(self.finding.eval)}~"

    @property
    def card(self) -> Card:
        """The card of the finding. If the finding concerns a group of evals, this eval comes first."""
        other_findings = (finding for finding in self.entry.findings if finding is not self.finding)
        return Card(Entry(self.report, self.entry.n, (self.finding, *other_findings)))


@dataclass(frozen=True)
class StoredEvidence:
    """Evidence of an eval from the store, or the reason why there is none."""

    evidence: Evidence | None
    problem: str = ""
    """A sentence with the reason why the evidence is missing; empty if there is evidence."""


@dataclass(frozen=True)
class ShownDocument:
    """A document, or an output with its reference, in a section of the page."""

    document: PagedDocument
    complete: bool
    """True if this page shows the whole document."""
    blocks: Sequence[LineBlock] = ()
    messages: Sequence[ConversationMessage] = ()
    conversation: RecordedConversation | None = None
    expected: PagedDocument | None = None
    """The reference of an output, if both are shown side by side in full."""
    parts: Sequence[PairPart] = ()
    folded: bool = False

    @cached_property
    def changes(self) -> Sequence[PairPart]:
        """The first part of each difference between the output and its reference."""
        before = [None, *self.parts]
        return [part for part, last in zip(self.parts, before, strict=False) if not part.equal and _is_equal(last)]

    @property
    def members(self) -> Sequence[PagedDocument]:
        return [self.document, self.expected] if self.expected else [self.document]


def _is_equal(part: PairPart | None) -> bool:
    return part is None or part.equal


class EvalEvidence:
    """The evidence of an eval in the form that its pages show."""

    def __init__(self, subject: ShownEval, evidence: Evidence) -> None:
        self.subject = subject
        self.evidence = evidence
        turns = {
            index: recorded_turns(document.text)
            for index, document in enumerate(evidence.documents)
            if document.role == "transcript"
        }
        starts = {index: frozenset(turn.first for turn in document_turns) for index, document_turns in turns.items()}
        self.documents = page_documents(evidence, subject.finding.citations, starts)
        self.conversations: dict[int, RecordedConversation] = {}
        for index, document_turns in turns.items():
            if document_turns:
                # Messages are numbered in each transcript, and the finding does not say which transcript it means. The
                # messages are marked only in the first transcript that has them.
                marks = self._marks if not any(map(self._has_mark, self.conversations.values())) else {}
                document = self.documents[index]
                self.conversations[document.number] = RecordedConversation(document, document_turns, marks)

    @cached_property
    def _marks(self) -> Mapping[int, str]:
        finding = self.subject.finding
        marks = {}
        if finding.first_mistake is not None:
            marks[finding.first_mistake] = "first mistake"
        if finding.message is not None:
            marks[finding.message] = "the run went wrong here"
        return marks

    def _has_mark(self, conversation: RecordedConversation) -> bool:
        return bool(conversation.numbers & self._marks.keys())

    @cached_property
    def marked(self) -> Sequence[tuple[int, str, str]]:
        """Number and anchor of each message that the finding names, and the reason why the message is marked."""
        conversation = next(filter(self._has_mark, self.conversations.values()), None)
        if conversation is None:
            return ()
        return [
            (number, f"{conversation.base}{number}", reason)
            for number, reason in self._marks.items()
            if number in conversation.numbers
        ]

    @cached_property
    def pairs(self) -> Sequence[tuple[PagedDocument | None, PagedDocument | None]]:
        """Output documents with their references.

        Cited pairs come before the other pairs. Within both groups, boilerplate and pairs without a difference come
        last.
        """
        pairs = [
            (
                self.documents[output] if output is not None else None,
                self.documents[expected] if expected is not None else None,
            )
            for output, expected in positions(self.evidence, pair_documents(self.evidence))
        ]
        return sorted(pairs, key=_rank)

    @cached_property
    def order(self) -> Sequence[PagedDocument]:
        """The documents in the order in which the page shows them."""
        paired = [document for pair in self.pairs for document in pair if document]
        by_role = {role: [document for document in self.documents if document.role == role] for role in ROLES}
        by_role["output"], by_role["expected"] = paired, []
        return list(chain.from_iterable(by_role.values()))

    @cached_property
    def complete_numbers(self) -> frozenset[int]:
        """Numbers of the documents that the eval's page shows in full.

        Cited documents are chosen first, then others, up to `ROOM_CHARACTERS` and `ROOM_LINES` in total.
        """
        characters, lines = ROOM_CHARACTERS, ROOM_LINES
        numbers: set[int] = set()
        partners = {document.number: pair for pair in self.pairs for document in pair if document}
        for document in sorted(self.order, key=lambda document: not document.citations):
            # An output and its reference are shown side by side, so both of them must fit.
            unit = [member for member in partners.get(document.number, (document,)) if member]
            if document.number in numbers or not all(member.is_short for member in unit):
                continue
            size = sum(len(member.document.text) for member in unit)
            height = sum(member.line_count for member in unit)
            if size <= characters and height <= lines:
                characters, lines = characters - size, lines - height
                numbers.update(member.number for member in unit)
        return frozenset(numbers)

    @property
    def paged(self) -> Sequence[PagedDocument]:
        """The documents that have separate pages."""
        return [document for document in self.documents if document.number not in self.complete_numbers]

    @cached_property
    def groups(self) -> Mapping[str, Sequence[ShownDocument]]:
        """The documents on the page of the eval, grouped by the title of their section."""
        groups: dict[str, list[ShownDocument]] = {}
        for role, title in TITLES.items():
            if role == "output":
                shown_documents = list(chain.from_iterable(map(self._shown_pair, self.pairs)))
            else:
                shown_documents = [self._shown(document) for document in self.documents if document.role == role]
            if shown_documents:
                groups[title] = shown_documents
        return groups

    def _shown_pair(self, pair: tuple[PagedDocument | None, PagedDocument | None]) -> Iterator[ShownDocument]:
        output, expected = pair
        if output and expected and {output.number, expected.number} <= self.complete_numbers:
            parts = pair_parts(output, expected)
            is_plain = all(part.equal for part in parts) or is_boilerplate(output.path)
            yield ShownDocument(
                output,
                complete=True,
                expected=expected,
                parts=parts,
                folded=is_plain and not (output.citations or expected.citations),
            )
        else:
            yield from (self._shown(document) for document in pair if document)

    def _shown(self, document: PagedDocument) -> ShownDocument:
        conversation = self.conversations.get(document.number)
        if document.number in self.complete_numbers:
            if conversation:
                return self._conversation(document, conversation, [document.full_span])
            folded = is_boilerplate(document.path) and document.role in ("output", "expected", "grader")
            blocks = document.blocks([document.full_span])
            return ShownDocument(document, complete=True, blocks=blocks, folded=folded and not document.citations)
        if conversation:
            return self._conversation(document, conversation, conversation.excerpt(), complete=False)
        if document.is_short and not document.citations:
            return ShownDocument(document, complete=False)
        return ShownDocument(document, complete=False, blocks=document.blocks(document.excerpt, clip=True))

    @staticmethod
    def _conversation(
        document: PagedDocument, conversation: RecordedConversation, spans: Sequence[LineSpan], *, complete: bool = True
    ) -> ShownDocument:
        messages = tuple(conversation.messages(spans, clip=not complete))
        return ShownDocument(document, complete=complete, messages=messages, conversation=conversation)

    def page_content(self, document: PagedDocument, span: LineSpan) -> ShownDocument:
        """Return one page of a document."""
        conversation = self.conversations.get(document.number)
        if conversation:
            return self._conversation(document, conversation, [span])
        return ShownDocument(document, complete=True, blocks=document.blocks([span]))

    def results(self, words: str, up: str) -> Sequence[tuple[PagedDocument, int, Sequence[LineBlock]]]:
        """Return the documents that contain a text, each with the number of matching lines and the first such lines."""
        results = []
        for document in self.order:
            if count := len(document.matches(words)):
                folder = f"{up}{self.subject.folder}/{document.number}-{{page}}.html"
                href = (
                    f"{up}{slug(self.subject.finding.eval)}.html"
                    if document.number in self.complete_numbers
                    else folder
                )
                results.append((document, count, document.result(words, href)))
            if len(results) >= MOST_RESULTS:
                break
        return results


def _rank(pair: tuple[PagedDocument | None, PagedDocument | None]) -> tuple[bool, bool, bool, bool]:
    output, expected = pair
    members = [document for document in pair if document]
    return (
        not any(document.citations for document in members),
        is_boilerplate(members[0].path),
        bool(output and expected and output.document.text == expected.document.text),
        output is None,
    )


class EvidencePages(Pages):
    """The pages of failed evals."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._subjects: dict[str, tuple[LoadedReport, Mapping[str, ShownEval]]] = {}
        self._last: tuple[ShownEval, StoredEvidence, EvalEvidence | None] | None = None

    def paths(self) -> Iterator[str]:
        for report in self.site.reports.shown:
            for subject in self._of_report(report).values():
                yield subject.path
                _, view = self._view(subject)
                for document in view.paged if view else ():
                    folder = subject.path.rpartition("/")[0]
                    pages = range(1, len(document.pages) + 1)
                    yield from (f"{folder}/{subject.folder}/{document.number}-{page}.html" for page in pages)

    def page(self, path: str, query: Query) -> Page | None:
        match = _PATH.fullmatch(path)
        if match is None:
            return None
        run, eval_slug, number, page = match.groups()
        subject = self._subject(run, eval_slug)
        if subject is None:
            return None
        stored, view = self._view(subject)
        if number is not None:
            return self._document_page(view, int(number), int(page)) if view else None
        return self._eval_page(subject, stored, view, query)

    def _subject(self, run: str, eval_slug: str) -> ShownEval | None:
        reports = self.site.reports
        # Pages that are served also link to evals of reports outside the scope, for example in comparisons.
        for report in (*reports.shown, *reports.all):
            if slug(report.run) == run and (subject := self._of_report(report).get(eval_slug)):
                return subject
        return None

    def _of_report(self, report: LoadedReport) -> Mapping[str, ShownEval]:
        """Return the evals of a report, keyed by the slugs of their names."""
        cached = self._subjects.get(report.name)
        if cached is None or cached[0] is not report:
            subjects = {
                slug(finding.eval): ShownEval(report, entry, finding)
                for entry in report.entries
                for finding in entry.findings
            }
            cached = self._subjects[report.name] = (report, subjects)
        return cached[1]

    def _view(self, subject: ShownEval) -> tuple[StoredEvidence, EvalEvidence | None]:
        """Return the stored evidence of an eval, and the same evidence in the form that pages show."""
        # A bundle's pages about one eval are rendered one after another, so the last result is enough. A served page
        # must show the evidence as it is now.
        if self._last is not None and self._last[0] is subject and self.site.is_static:
            return self._last[1:]
        stored = self._stored(subject)
        view = EvalEvidence(subject, stored.evidence) if stored.evidence else None
        self._last = (subject, stored, view) if self.site.is_static else None
        return stored, view

    def _stored(self, subject: ShownEval) -> StoredEvidence:
        workspace = self.site.workspace
        if not workspace.has_store:
            return StoredEvidence(None, "This folder has no store with evidence yet, only reports.")
        try:
            evidence = self._load(subject)
        # A text in a damaged store may not be UTF-8.
        except (EvalscribeError, UnicodeDecodeError) as error:
            return StoredEvidence(None, f"The evidence in the store cannot be read: {error}")
        if evidence is None:
            return StoredEvidence(None, "The store has no evidence for this eval.")
        if isinstance(evidence, UnreadableEvidence):
            return StoredEvidence(None, f"The source could not read the evidence: {evidence.reason}")
        return StoredEvidence(evidence)

    def _load(self, subject: ShownEval) -> Evidence | UnreadableEvidence | None:
        analyses = self.site.workspace.store.analyses
        run_ids = [subject.report.run]
        if not subject.report.analysis.run.id:
            run_ids = [run for run in analyses.run_ids(subject.report.run) if run.startswith(subject.report.run)]
        for run_id in run_ids:
            for eval_id in self._eval_ids(subject, run_id):
                if evidence := analyses.get_evidence(run_id, eval_id):
                    return evidence
        return None

    def _eval_ids(self, subject: ShownEval, run_id: str) -> Iterator[str]:
        """Yield the eval's id if the report states it; otherwise, the ids of the run's failures with the same name."""
        finding = subject.finding
        if finding.eval_id is not None:
            yield finding.eval_id
            return
        run = self.site.workspace.store.analyses.get_run(run_id)
        for failure in run.failures if run else ():
            if finding.eval in (failure.path, eval_name(failure.path)):
                yield failure.id

    def _eval_page(self, subject: ShownEval, stored: StoredEvidence, view: EvalEvidence | None, query: Query) -> Page:
        words = query.get("q", "").strip()[:LONGEST_QUERY]
        entries = subject.report.entries
        at = next(index for index, entry in enumerate(entries) if entry.n == subject.entry.n)
        values: dict[str, object] = {
            **_shared(subject),
            "card": subject.card,
            "stored": stored,
            "command": f"evalscribe analyze {quote(subject.report.run)}",
            "view": view,
            "groups": view.groups if view and not words else {},
            "query": words,
            "results": view.results(words, "") if view and words else (),
            "most_results": MOST_RESULTS,
            "previous": entries[at - 1].first.eval if at else None,
            "next": entries[at + 1].first.eval if at + 1 < len(entries) else None,
            "entry_count": len(entries),
            "prefix": f"{subject.folder}/",
        }
        return Page("evidence.html.j2", subject.finding.eval, "runs.html", values)

    @staticmethod
    def _document_page(view: EvalEvidence, number: int, page: int) -> Page | None:
        if number > len(view.documents):
            return None
        document = view.documents[number - 1]
        if page > len(document.pages):
            return None
        span = document.pages[page - 1]
        values: dict[str, object] = {
            **_shared(view.subject),
            "item": view.page_content(document, span),
            "document": document,
            "page_number": page,
            "first": span.first[0],
            "last": span.end[0] if span.end[1] else span.end[0] - 1,
            "prefix": "",
        }
        title = f"{document.path}, page {page}, {view.subject.finding.eval}"
        return Page("document.html.j2", title, "runs.html", values)


def _shared(subject: ShownEval) -> Mapping[str, object]:
    return {"report": subject.report, "entry": subject.entry, "finding": subject.finding}
