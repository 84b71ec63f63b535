"""Tools of the model judge: list, read, search and compare the evidence, and submit a verdict.

No tool touches the file system. The instructions that ask for a submission are `prompts/classify/system.md.j2` and
`prompts/rubrics/failure.yaml`; change them together with `VerdictSubmission`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from evalscribe.evidence.differences import DocumentPair, diff_hunks, pair_documents
from evalscribe.judging.prompt_text import Delimiter, number_lines, one_line, quote_json
from evalscribe.judging.quotations import verify_citation
from evalscribe.judging.tool_loop import ToolFields, describe_misuse, limit_lines, tool_of
from evalscribe.model.chat import Tool, ToolCall, ToolResult, Usage
from evalscribe.model.evidence import Citation, Document, Evidence, Role
from evalscribe.model.finding import CLASSIFICATIONS, UNCERTAIN_CONFIDENCE, CauseKind, Classification, Verdict

LONGEST_WHY = 90
LONGEST_ERROR = 300
LONGEST_REASONING = 900
LONGEST_CAUSE = 60
MOST_QUOTATIONS = 12
LONGEST_READ = 8_000
"""Maximum characters shown of a line that a judge reads with a tool.

The limit is high because a tool's answer in a transcript is often a single line.
"""


def _kebab(name: str) -> str:
    cause = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_CAUSE].rstrip("-")
    if not cause:
        raise ValueError("must be a short kebab-case name")
    return cause


def _one_line(text: str) -> str:
    return " ".join(one_line(text).split())


OneLine = Annotated[str, AfterValidator(_one_line)]
RequiredLine = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(_one_line)]


class SubmittedQuotation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: Role = Field(description="As the evidence names it.")
    path: str = Field(description="Letter by letter.")
    first: int
    last: int
    text: str = Field(description="These lines whole and unchanged, without their numbers.")


class VerdictSubmission(BaseModel):
    """Submit the verdict of this failure; it ends the investigation."""

    model_config = ConfigDict(extra="forbid")

    error: RequiredLine = Field(description="The exact error in one line, or that the log ends before the reason.")
    citations: list[SubmittedQuotation] = Field(description="The lines that prove it.")
    reasoning: RequiredLine = Field(
        description="Two or three sentences: the rule, the identifier, the file and what differs from the reference."
    )
    classification: Classification = Field(description="The first label of the order that holds.")
    cause: Annotated[str, AfterValidator(_kebab)] = Field(
        description="Root cause as a short kebab-case name; equal causes have equal names: missing-as-const."
    )
    cause_kind: CauseKind = Field(description="Where the cause lies.")
    confidence: float = Field(
        ge=0,
        le=1,
        description="How likely it is that the maintainers agree; at most 0.5 where the evidence does not decide.",
    )
    why: RequiredLine = Field(
        description=f"The verdict in one line of at most {LONGEST_WHY} characters, without the label."
    )
    fix: OneLine = Field(
        description="One imperative line: what to change in task, grader, lint or harness; empty if nothing."
    )
    would_pass: bool = Field(description="Whether that change alone would let this output pass.")
    # Strict schemas require every field, so 0 means that there is no such message.
    message: int = Field(
        default=0,
        ge=0,
        description="Number of the transcript's message in which the run went wrong for this cause; 0 if unknown.",
    )
    first_mistake: int = Field(
        default=0,
        ge=0,
        description="Number of an earlier message with the run's first mistake; 0 if there is none.",
    )


class TaggedSubmission(VerdictSubmission):
    """Submit the verdict of this failure, with what it may be tagged with."""

    tags: list[str] = Field(description="Every issue that might apply, false positives included.")
    sure: bool = Field(description="Whether what you read decides it, so that nobody needs to look again.")


S = TypeVar("S", bound=VerdictSubmission)


def parse_submission(fields: dict[str, Any], shape: type[S], labels: Sequence[Classification]) -> S | list[str]:
    """Validate a submission. Return the submission or, if it is invalid, its problems with the names of the fields.

    `labels` are the labels that the rubric allows.
    """
    try:
        submission = shape.model_validate(fields)
    except ValidationError as error:
        return [f"{'.'.join(map(str, e['loc'])) or 'submission'}: {e['msg']}" for e in error.errors()]
    if submission.classification not in labels:
        return [f"classification: {submission.classification} is no label of this rubric; {', '.join(labels)} are"]
    return submission


def verify_quotations(submission: VerdictSubmission, evidence: Evidence) -> tuple[Citation, ...]:
    """Return the submission's quotations, each with its status."""
    quotations = submission.citations[:MOST_QUOTATIONS]
    return tuple(verify_citation(Citation(**quotation.model_dump()), evidence) for quotation in quotations)


def list_doubts(submission: VerdictSubmission, citations: tuple[Citation, ...]) -> list[str]:
    """List the problems of a valid submission.

    The model is asked once to correct these problems. Its corrected verdict is accepted even if problems remain.
    """
    doubts = [
        f"citations.{n}: {citation.role} {citation.path!r} holds no such whole lines; quote what read_lines shows"
        for n, citation in enumerate(citations)
        if citation.status == "unverified"
    ]
    if len(submission.why) > LONGEST_WHY:
        doubts.append(f"why: {len(submission.why)} characters, at most {LONGEST_WHY} are wanted")
    if submission.classification == "MODEL_FAULT" and submission.cause_kind != "model":
        doubts.append(f"cause_kind: {submission.cause_kind} contradicts MODEL_FAULT, whose kind is model")
    return doubts


def to_verdict(submission: VerdictSubmission, citations: tuple[Citation, ...], judge: str, usage: Usage) -> Verdict:
    """Convert a submission to a verdict.

    The verdict is marked as uncertain if the model's confidence is low or all quotations are invented.
    """
    fault = submission.classification == "MODEL_FAULT"
    invented = bool(citations) and all(citation.status == "unverified" for citation in citations)
    confidence = min(submission.confidence, UNCERTAIN_CONFIDENCE) if invented else submission.confidence
    return Verdict(
        classification=submission.classification,
        cause=submission.cause,
        # The model was asked once about a contradiction of label and kind. If it remains, the label takes precedence.
        cause_kind="model" if fault else submission.cause_kind,
        confidence=confidence,
        uncertain=confidence <= UNCERTAIN_CONFIDENCE,
        error=_shorten(submission.error, LONGEST_ERROR),
        why=_shorten(submission.why, LONGEST_WHY),
        reasoning=_shorten(submission.reasoning, LONGEST_REASONING),
        citations=citations,
        judge=judge,
        fix=submission.fix or None,
        # A change to the eval does not correct a mistake of the model.
        would_pass=submission.would_pass and bool(submission.fix) and not fault,
        message=submission.message or None,
        first_mistake=submission.first_mistake if 0 < submission.first_mistake < submission.message else None,
        usage=usage,
    )


def _shorten(text: str, longest: int) -> str:
    """Shorten a text to at most `longest` characters, at a word boundary if possible."""
    if len(text) <= longest:
        return text
    head = text[: longest - 1]
    return (head.rpartition(" ")[0] or head).rstrip(" ,;:") + "…"


MOST_LINES = 300
MOST_HITS = 50
MOST_DOCUMENTS = 200


class ListDocuments(ToolFields):
    """List every document of the evidence: role, path, number of lines."""


class ReadLines(ToolFields):
    """Read lines of one document, with their numbers."""

    role: Role
    path: str
    first: Annotated[int, Field(ge=1, description="First line, counted from 1.")]
    last: Annotated[int, Field(ge=1, description=f"Last line; {MOST_LINES} lines at most are shown at once.")]


class SearchLines(ToolFields):
    """Find lines with a text, ignoring case, in the documents of one role or of any."""

    text: Annotated[str, Field(min_length=1, max_length=200, description="Plain text, no pattern.")]
    role: Literal[Role, "any"]


class CompareFiles(ToolFields):
    """Compare an output file with its counterpart in the reference answer."""

    path: Annotated[str, Field(description="Path of the output file, or of the reference's.")]


class ToolCallRefused(Exception):
    """Raised for a tool call that cannot be answered. The error message is sent to the model."""


TOOL_FIELDS: dict[str, type[BaseModel]] = {
    "list_documents": ListDocuments,
    "read_lines": ReadLines,
    "search": SearchLines,
    "diff": CompareFiles,
}
SUBMIT = "submit"


READING_TOOLS = tuple(tool_of(name, fields) for name, fields in TOOL_FIELDS.items())


def submit_tool(
    shape: type[VerdictSubmission] = VerdictSubmission,
    labels: Sequence[str] = CLASSIFICATIONS,
    tags: Sequence[str] = (),
    *,
    agent_run: bool = True,
) -> Tool:
    """Return the tool for submitting a verdict, with the rubric's labels and the available tags.

    `agent_run`: whether the tool asks for the message in which the agent run went wrong.
    """
    tool = tool_of(SUBMIT, shape)
    # `tool_of` builds a new schema for each call, so the schema can be changed here.
    fields = tool.input_schema["properties"]
    for name in () if agent_run else ("message", "first_mistake"):
        del fields[name]
        tool.input_schema["required"].remove(name)
    fields["classification"]["enum"] = list(labels)
    if tags:
        fields["tags"]["items"]["enum"] = list(tags)
    return tool


class EvidenceTools:
    """Tools for reading one failure's evidence. The tools' answers are delimited as untrusted data."""

    def __init__(self, evidence: Evidence, delimiter: Delimiter) -> None:
        self._evidence = evidence
        self._delimiter = delimiter

    def answer(self, call: ToolCall) -> ToolResult:
        """Answer a tool call. If there is a problem with the call, the result describes it; no exception is raised."""
        try:
            about, lines = self._run(call.name, call.input)
        except ToolCallRefused as refused:
            return ToolResult(call_id=call.id, text=str(refused), is_error=True)
        return ToolResult(call_id=call.id, text=self._delimiter.block(about, limit_lines(lines)))

    def _run(self, name: str, fields: dict[str, Any]) -> tuple[str, Iterable[str]]:
        if name not in TOOL_FIELDS:
            raise ToolCallRefused(
                f"There is no tool {quote_json(name)}; there are {', '.join(TOOL_FIELDS)} and {SUBMIT}."
            )
        try:
            arguments = TOOL_FIELDS[name].model_validate(fields)
        except ValidationError as error:
            raise ToolCallRefused(describe_misuse(error)) from None
        match arguments:
            case ReadLines():
                return self._read(arguments)
            case SearchLines():
                return self._search(arguments)
            case CompareFiles():
                return self._diff(arguments)
        return "documents", self._list()

    def _list(self) -> Iterator[str]:
        documents = self._evidence.documents
        for document in documents[:MOST_DOCUMENTS]:
            yield f"{document.role} {quote_json(document.path)} {document.line_count} lines"
        if len(documents) > MOST_DOCUMENTS:
            yield f"and {len(documents) - MOST_DOCUMENTS} more"

    def _read(self, arguments: ReadLines) -> tuple[str, Iterable[str]]:
        document = self._document(arguments.role, arguments.path)
        total = document.line_count
        about = f"{document.role} {quote_json(document.path)}"
        if arguments.last < arguments.first:
            raise ToolCallRefused(f"`last` comes before `first`. The document has {total} lines.")
        if arguments.first > total:
            return about, [f"[no line {arguments.first}: the document has only {total} lines]"]
        last = min(arguments.last, total, arguments.first + MOST_LINES - 1)
        lines = [
            number_lines(number, document.lines[number - 1], LONGEST_READ)
            for number in range(arguments.first, last + 1)
        ]
        if arguments.last > total:
            lines.append(f"[the document ends here: it has {total} lines]")
        return f"{about} lines {arguments.first} to {last} of {total}", lines

    def _search(self, arguments: SearchLines) -> tuple[str, Iterable[str]]:
        role = None if arguments.role == "any" else arguments.role
        documents = (d for d in self._evidence.documents if role in (None, d.role))
        hits = list(islice(_hits(documents, arguments.text.casefold()), MOST_HITS + 1))
        note = ["and more"] if len(hits) > MOST_HITS else []
        return "search", [*hits[:MOST_HITS], *note] or ["no line holds that"]

    def _diff(self, arguments: CompareFiles) -> tuple[str, Iterable[str]]:
        pair = next((p for p in self._pairs if arguments.path in _paths(p)), None)
        if pair is None:
            raise ToolCallRefused(
                f"No output or reference has the path {quote_json(arguments.path[:200])}; see list_documents."
            )
        if pair.output is None or pair.expected is None:
            raise ToolCallRefused("The other side has no file like it.")
        about = (
            f"output {quote_json(pair.output.path)} (+) against reference {quote_json(pair.expected.path)} (-), "
            "equal lines as reference=output"
        )
        lines = [line for n, hunk in enumerate(diff_hunks(pair)) for line in (*(["…"] if n else []), *hunk.lines)]
        return about, (one_line(line) for line in lines or ["no difference"])

    @cached_property
    def _pairs(self) -> tuple[DocumentPair, ...]:
        return pair_documents(self._evidence)

    def _document(self, role: Role, path: str) -> Document:
        document = self._evidence.document(role, path)
        if document is None:
            raise ToolCallRefused(
                f"There is no {role} document {quote_json(path[:200])}; list_documents names them all."
            )
        return document


def _paths(pair: DocumentPair) -> list[str]:
    return [document.path for document in (pair.output, pair.expected) if document]


def _hits(documents: Iterable[Document], text: str) -> Iterator[str]:
    for document in documents:
        for number, line in enumerate(document.lines, 1):
            if text in line.casefold():
                yield f"{document.role} {quote_json(document.path)} {number}| {one_line(line)}"
