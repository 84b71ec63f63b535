"""What the sub-agent may do with the evidence: list, read, search, compare. Nothing here touches a file system."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from evalscribe.diff import Pair, hunks, pairs
from evalscribe.judging.classifier.submission import Submission
from evalscribe.judging.fence import Fence, marked, numbered, one_line, quoted
from evalscribe.judging.tool_fields import Fields, bounded, misuse, tool_of
from evalscribe.model.chat import Tool, ToolCall, ToolResult
from evalscribe.model.evidence import Document, Evidence, Role
from evalscribe.model.finding import CLASSIFICATIONS

MOST_LINES = 300
MOST_HITS = 50
MOST_DOCUMENTS = 200


class ListDocuments(Fields):
    """List every document of the evidence: role, path, number of lines."""


class ReadLines(Fields):
    """Read lines of one document, with their numbers."""

    role: Role
    path: str
    first: Annotated[int, Field(ge=1, description="First line, counted from 1.")]
    last: Annotated[int, Field(ge=1, description=f"Last line; {MOST_LINES} lines at most are shown at once.")]


class Search(Fields):
    """Find the lines that hold a text, capitals or not, in the documents of one role or of any."""

    text: Annotated[str, Field(min_length=1, max_length=200, description="Plain text, no pattern.")]
    role: Literal[Role, "any"]


class Diff(Fields):
    """Compare an output file with the reference answer's file that it stands for."""

    path: Annotated[str, Field(description="Path of the output file, or of the reference's.")]


class Refused(Exception):
    """A call that cannot be answered; the model is told why."""


NAMES: dict[str, type[BaseModel]] = {
    "list_documents": ListDocuments,
    "read_lines": ReadLines,
    "search": Search,
    "diff": Diff,
}
SUBMIT = "submit"


READING = tuple(tool_of(name, fields) for name, fields in NAMES.items())


def submit_tool(
    shape: type[Submission] = Submission, labels: Sequence[str] = CLASSIFICATIONS, tags: Sequence[str] = ()
) -> Tool:
    """How a verdict is submitted: with the labels of the rubric, and the tags that there are."""
    tool = tool_of(SUBMIT, shape)
    fields = tool.input_schema["properties"]
    fields["classification"]["enum"] = list(labels)
    if tags:
        fields["tags"]["items"]["enum"] = list(tags)
    return tool


TOOLS = (*READING, submit_tool())


class Toolbox:
    """The tools over one failure's evidence. Answers are delimited data."""

    def __init__(self, evidence: Evidence, fence: Fence) -> None:
        self._evidence = evidence
        self._fence = fence

    def answer(self, call: ToolCall) -> ToolResult:
        """Never raises: what is wrong with a call is its result."""
        try:
            about, lines = self._run(call.name, call.input)
        except Refused as refused:
            return ToolResult(call_id=call.id, text=str(refused), is_error=True)
        return ToolResult(call_id=call.id, text=self._fence.block(about, bounded(lines)))

    def _run(self, name: str, fields: dict[str, Any]) -> tuple[str, Iterable[str]]:
        if name not in NAMES:
            raise Refused(f"There is no tool {quoted(name)}; there are {', '.join(NAMES)} and {SUBMIT}.")
        try:
            asked = NAMES[name].model_validate(fields)
        except ValidationError as error:
            raise Refused(misuse(error)) from None
        match asked:
            case ReadLines():
                return self._read(asked)
            case Search():
                return self._search(asked)
            case Diff():
                return self._diff(asked)
        return "documents", self._list()

    def _list(self) -> Iterator[str]:
        documents = self._evidence.documents
        for document in documents[:MOST_DOCUMENTS]:
            yield f"{document.role} {quoted(document.path)} {len(document.lines)} lines"
        if len(documents) > MOST_DOCUMENTS:
            yield f"and {len(documents) - MOST_DOCUMENTS} more"

    def _read(self, asked: ReadLines) -> tuple[str, Iterable[str]]:
        document = self._document(asked.role, asked.path)
        total = len(document.lines)
        if not asked.first <= min(asked.last, total):
            raise Refused(f"It has {total} lines; ask for first to last among them.")
        last = min(asked.last, total, asked.first + MOST_LINES - 1)
        lines = document.lines[asked.first - 1 : last]
        about = f"{document.role} {quoted(document.path)} lines {asked.first} to {last} of {total}"
        return about, (numbered(number, line) for number, line in enumerate(lines, asked.first))

    def _search(self, asked: Search) -> tuple[str, Iterable[str]]:
        role = None if asked.role == "any" else asked.role
        documents = (d for d in self._evidence.documents if role in (None, d.role))
        hits = list(islice(_hits(documents, asked.text.casefold()), MOST_HITS + 1))
        more = ["and more"] if len(hits) > MOST_HITS else []
        return "search", [*hits[:MOST_HITS], *more] or ["no line holds that"]

    def _diff(self, asked: Diff) -> tuple[str, Iterable[str]]:
        pair = next((p for p in self._pairs if asked.path in _paths(p)), None)
        if pair is None:
            raise Refused(f"No output or reference has the path {quoted(asked.path[:200])}; see list_documents.")
        if pair.output is None or pair.expected is None:
            raise Refused("The other side has no file like it.")
        about = f"output {quoted(pair.output.path)} (+) against reference {quoted(pair.expected.path)} (-)"
        found = [line for hunk in hunks(pair) for line in ("…", *hunk.lines)]
        return about, (marked(line) for line in found or ["no difference"])

    @cached_property
    def _pairs(self) -> tuple[Pair, ...]:
        return pairs(self._evidence)

    def _document(self, role: Role, path: str) -> Document:
        document = self._evidence.document(role, path)
        if document is None:
            raise Refused(f"There is no {role} document {quoted(path[:200])}; list_documents names them all.")
        return document


def _paths(pair: Pair) -> list[str]:
    return [document.path for document in (pair.output, pair.expected) if document]


def _hits(documents: Iterable[Document], text: str) -> Iterator[str]:
    for document in documents:
        for number, line in enumerate(document.lines, 1):
            if text in line.casefold():
                yield f"{document.role} {quoted(document.path)} {number}| {one_line(line)}"
