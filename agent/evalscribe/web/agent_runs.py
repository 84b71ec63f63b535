"""Find the pages of imported agent runs, select agent runs for a bundle, and divide messages into pages."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evalscribe.collections.lookup import own_collections
from evalscribe.judging.subjects import as_json, value_text
from evalscribe.model.evidence import Document
from evalscribe.model.record import AgentRunPlace, GradedEval, Record
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Run
from evalscribe.model.transcript import AssistantMessage, ChatMessage, ToolMessage, Transcript
from evalscribe.store.store import Storage
from evalscribe.web.report_index import Entry
from evalscribe.web.site import Query, Site, anchor, slug

ON_PAGE = 200
"""Maximum number of messages, or of rows of a list, on one page."""
MOST_IN_BUNDLE = 200
"""Maximum number of agent runs per collection in a bundle. Agent runs that a result cites are included in addition."""
LARGEST_IN_BUNDLE = 8_000_000
"""Maximum total number of characters in a collection's agent runs in a bundle.

An agent run that would exceed this total is left out unless a result cites it.
"""
LONGEST_TEXT = 20_000
"""Maximum characters of a text on a page that also shows other texts. The message's own page shows the whole text."""
LONGEST_IN_BUNDLE = 500_000
"""Maximum number of characters in a message that has a page of its own in a bundle.

A bundle has no such page for a longer message.
"""
FOLDED_TEXT, FOLDED_LINES = 2_000, 25
"""Maximum characters and lines of a text that is not folded. A longer text is folded until the reader opens it."""
MOST_LINES = 2_000
"""Maximum number of lines of a document that are shown."""
STATUSES = ("failed", "error", "incomplete", "passed")
"""Statuses of evals, in the order in which a bundle selects the evals of a run."""


@dataclass(frozen=True)
class TextPassage:
    """A text in the form that a page shows. The end of a long text can be cut off."""

    text: str
    left_out: int = 0
    """Number of further characters that are not shown."""

    @property
    def folded(self) -> bool:
        return len(self.text) > FOLDED_TEXT or self.text.count("\n") >= FOLDED_LINES

    @property
    def beginning(self) -> str:
        """The first line of the text, at most 160 characters. It stays visible while the text is folded."""
        return self.text.strip().partition("\n")[0][:160]

    @property
    def length(self) -> int:
        return len(self.text) + self.left_out


@dataclass(frozen=True)
class CallView:
    """A tool call."""

    name: str
    arguments: TextPassage


@dataclass(frozen=True)
class MessageView:
    """A message in the form that `agent_run.html.j2` shows."""

    number: int
    """Position of the message in its transcript, counted from 1."""
    role: str
    name: str | None
    """Name of the model that wrote the message, or of the tool whose result the message contains."""
    text: TextPassage
    reasoning: TextPassage
    calls: tuple[CallView, ...]
    error: TextPassage
    metadata: TextPassage

    @property
    def anchor(self) -> str:
        return f"m{self.number}"

    @property
    def left_out(self) -> bool:
        """True if at least one text of the message is cut."""
        return any(passage.left_out for passage in self.passages)

    @property
    def length(self) -> int:
        """Number of characters of the message, including those not shown."""
        return sum(passage.length for passage in self.passages)

    @property
    def passages(self) -> Sequence[TextPassage]:
        return (self.text, self.reasoning, self.error, self.metadata, *(call.arguments for call in self.calls))


def view_message(number: int, message: ChatMessage, longest: int | None = LONGEST_TEXT) -> MessageView:
    """Prepare a message for display. `longest` is the maximum number of characters of each text; None for no limit."""

    def passage(text: str | None) -> TextPassage:
        text = text or ""
        return TextPassage(text) if longest is None else TextPassage(text[:longest], max(0, len(text) - longest))

    assistant = message if isinstance(message, AssistantMessage) else None
    tool = message if isinstance(message, ToolMessage) else None
    return MessageView(
        number=number,
        role=message.role,
        name=assistant.model if assistant else tool.function if tool else None,
        text=passage(message.content),
        reasoning=passage(assistant.reasoning if assistant else None),
        calls=tuple(
            CallView(call.function, passage(_arguments(call.arguments)))
            for call in (assistant.tool_calls if assistant else ())
        ),
        error=passage(tool.error if tool else None),
        metadata=passage(as_json(message.metadata) if message.metadata else None),
    )


def _arguments(arguments: Mapping[str, object]) -> str:
    """Render the arguments of a tool call. A value with several lines starts on a new line."""
    return "\n".join(
        f"{name}:\n{value}" if isinstance(value, str) and "\n" in value else f"{name}: {_json(value)}"
        for name, value in arguments.items()
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


class AgentRunFinder:
    """Finds imported agent runs and the paths of their pages."""

    def __init__(self, site: Site, cited: Callable[[], Iterable[str]]) -> None:
        """Store the arguments. Nothing is read yet.

        Args:
            site: The site to which the pages belong.
            cited: Returns the ids of the agent runs that a bundle must contain because a result in it cites them.
        """
        self._site = site
        self._cited = cited

    @property
    def store(self) -> Storage | None:
        """The store, or None if no store exists yet. Opening a missing store would create it."""
        return self._site.workspace.store if self._site.workspace.has_store else None

    @property
    def limited(self) -> bool:
        """True if the site shows only some of the reports."""
        scope = self._site.reports.scope
        return scope.report is not None or bool(scope.folder)

    def collections(self) -> Sequence[tuple[Collection, Sequence[Run]]]:
        """Return the collections with their runs.

        If the site shows only some of the reports, return only the runs of these reports, and only collections that
        have such runs.
        """
        if self.store is None:
            return ()
        pairs = [(collection, self._runs(collection)) for collection in own_collections(self._site.workspace)]
        return [(collection, runs) for collection, runs in pairs if runs or not self.limited]

    def _runs(self, collection: Collection) -> Sequence[Run]:
        """Return the runs of a collection that the site shows, newest first."""
        assert self.store is not None
        runs = self.store.runs.runs(collection.id)[::-1]
        shown = {report.run for report in self._site.reports.shown} if self.limited else set()
        return [run for run in runs if not self.limited or run.id in shown]

    def listed(self, collection: Collection, run: Run) -> Sequence[GradedEval]:
        """Return the evals of a run in the order of its source.

        For a bundle, return only the evals that the bundle contains.
        """
        assert self.store is not None
        evals = self.store.runs.graded(run.id)
        if not self._site.is_static:
            return evals
        chosen = self.chosen.get((collection.id, run.id), frozenset())
        return [graded for graded in evals if graded.eval.id in chosen]

    @cached_property
    def chosen(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """Ids of the evals whose agent runs a bundle contains, keyed by collection id and run id.

        A bundle always contains the agent runs that a result cites. Other agent runs are added from the newest runs,
        failed evals first, up to `MOST_IN_BUNDLE` and `LARGEST_IN_BUNDLE`.
        """
        assert self.store is not None
        shown = {(collection.id, run.id) for collection, runs in self.collections() for run in runs}
        chosen: dict[tuple[str, str], set[str]] = {key: set() for key in shown}
        for places in self.store.runs.places(self._cited()).values():
            for place in places:
                if (place.collection_id, place.run_id) in shown:
                    chosen[place.collection_id, place.run_id].add(place.eval_id)
        for collection, runs in self.collections():
            number, size = 0, 0
            for run in runs:
                if number == MOST_IN_BUNDLE:
                    break
                sizes = self.store.runs.sizes(run.id)
                for graded in sorted(self.store.runs.graded(run.id), key=lambda item: STATUSES.index(item.eval.status)):
                    length = sizes.get(graded.eval.id, 0)
                    if number < MOST_IN_BUNDLE and size + length <= LARGEST_IN_BUNDLE:
                        chosen[collection.id, run.id].add(graded.eval.id)
                        number, size = number + 1, size + length
        return {key: frozenset(ids) for key, ids in chosen.items()}

    def has(self, place: AgentRunPlace) -> bool:
        """Return whether the site has pages about an agent run."""
        if self._site.is_static:
            return place.eval_id in self.chosen.get((place.collection_id, place.run_id), ())
        return not self.limited or any(report.run == place.run_id for report in self._site.reports.shown)

    def entry(self, run_id: str, path: str) -> Entry | None:
        """Return the finding about a failed eval, or None if no report on the site contains one."""
        reports = (report for report in self._site.reports.shown if report.run == run_id)
        return next((entry for report in reports if (entry := report.entry_of.get(path))), None)

    def record(self, run_id: str, eval_id: str) -> Record | None:
        assert self.store is not None
        return self.store.runs.record(eval_id, run_id=run_id)


def run_folder(collection_id: str, run_id: str) -> str:
    return f"collections/{slug(collection_id)}/run/{slug(run_id)}"


def agent_run_folder(collection_id: str, run_id: str, eval_id: str) -> str:
    return f"{run_folder(collection_id, run_id)}/agent/{slug(eval_id)}"


def messages_file(transcript: int, page: int) -> str:
    """Return the file name of a page of messages, given the index of the transcript and of the page (both from 0)."""
    return "index.html" if transcript == page == 0 else f"t{transcript}-{page}.html"


def message_file(transcript: int, number: int) -> str:
    """Return the file name of the page that shows one long message."""
    return f"t{transcript}-m{number}.html"


def metadata_anchor(key: str) -> str:
    return f"metadata-{slug(key)}"


def message_href(place: AgentRunPlace, transcript_id: str | None, block: int) -> str:
    """Return the address of a message, given its index in a transcript."""
    transcript = place.transcripts.index(transcript_id) if transcript_id in place.transcripts else 0
    return f"{folder_of(place)}/{messages_file(transcript, block // ON_PAGE)}#m{block + 1}"


def folder_of(place: AgentRunPlace) -> str:
    return agent_run_folder(place.collection_id, place.run_id, place.eval_id)


def document_href(place: AgentRunPlace, role: str, path: str, line: int) -> str:
    # Lines after the last shown one have no anchor.
    return f"{folder_of(place)}/documents.html#{anchor(role, path, min(line, MOST_LINES))}"


@dataclass(frozen=True)
class MessagesPage:
    """One page of the messages of a transcript."""

    transcript: int
    """Index of the transcript, from 0."""
    page: int
    """Index of the page, from 0."""
    pages: int
    total: int
    """Number of messages in the transcript."""
    messages: tuple[MessageView, ...]


def messages_page(transcripts: Sequence[Transcript], transcript: int, page: int) -> MessagesPage | None:
    """Return one page of a transcript's messages, or None if the transcript or the page does not exist."""
    if transcript >= len(transcripts):
        return None
    messages = transcripts[transcript].messages
    pages = max(1, -(-len(messages) // ON_PAGE))
    if page >= pages:
        return None
    first = page * ON_PAGE
    views = [view_message(first + at, message) for at, message in enumerate(messages[first : first + ON_PAGE], 1)]
    return MessagesPage(transcript, page, pages, len(messages), tuple(views))


def files_of(record: Record) -> Iterator[str]:
    """Yield the names of the files that a bundle contains about one agent run."""
    yield "index.html"
    for at, transcript in enumerate(record.agent_run.transcripts):
        pages = max(1, -(-len(transcript.messages) // ON_PAGE))
        yield from (messages_file(at, page) for page in range(pages) if at or page)
        for number, message in enumerate(transcript.messages, 1):
            view = view_message(number, message)
            if view.left_out and view.length <= LONGEST_IN_BUNDLE:
                yield message_file(at, number)
    if record.documents:
        yield "documents.html"


@dataclass(frozen=True)
class MetadataRow:
    name: str
    anchor: str
    value: TextPassage


def metadata_rows(metadata: Mapping[str, object]) -> Sequence[MetadataRow]:
    rows = ((name, value_text(value)) for name, value in metadata.items())
    return [
        MetadataRow(name, metadata_anchor(name), TextPassage(text[:LONGEST_TEXT], max(0, len(text) - LONGEST_TEXT)))
        for name, text in rows
    ]


@dataclass(frozen=True)
class DocumentView:
    """A document of an agent run, cut after its first `MOST_LINES` lines."""

    role: str
    path: str
    lines: tuple[tuple[str, str], ...]
    """Anchor and text of each line that is shown."""
    left_out: int
    """Number of further lines that are not shown."""


def view_document(document: Document) -> DocumentView:
    lines = document.text.split("\n")
    return DocumentView(
        role=document.role,
        path=document.path,
        lines=tuple(
            (anchor(document.role, document.path, number), line[:LONGEST_TEXT])
            for number, line in enumerate(lines[:MOST_LINES], 1)
        ),
        left_out=max(0, len(lines) - MOST_LINES),
    )


def matching_evals(evals: Sequence[GradedEval], query: Query) -> Sequence[GradedEval]:
    """Return the evals that match the filters in the page's address."""
    words = query.get("q", "").lower().split()
    status = query.get("status", "")
    return [
        graded
        for graded in evals
        if status in ("", graded.eval.status)
        and all(word in f"{graded.eval.path} {graded.eval.id}".lower() for word in words)
    ]
