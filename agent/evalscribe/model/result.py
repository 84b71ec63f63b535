"""Define requests to models, the results of judges, and stored sets of results."""

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import reduce
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    RootModel,
    ValidationError,
    model_validator,
)

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen, content_id
from evalscribe.json_data import is_clean, join_path, preview
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import CitationStatus, Role
from evalscribe.model.finding import NoVerdictCause

MAX_METADATA_DEPTH = 50
"""Maximum nesting depth of metadata."""


def _clean_text(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if not is_clean(text):
        raise ValueError("contains NUL or an invalid character (a lone surrogate)")
    return text


Id = Annotated[str, Field(strict=True), AfterValidator(_clean_text)]


class RequestValue(Frozen):
    """Base class of values that raise `UsageError` if they are invalid. The error names the field and the problem."""

    called: ClassVar[str | None] = None
    """Name of the value in error messages; None to use the class name."""

    @model_validator(mode="wrap")
    @classmethod
    def _one_error(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise UsageError(describe_validation_error(cls.called or cls.__name__, error)) from None


class AgentRunRef(RequestValue):
    """Reference that inserts an agent run's metadata and transcripts into a prompt.

    There, the metadata is labelled `R0`, and the messages are labelled `T0B0`, `T0B1` and so on.
    """

    type: Literal["agent_run"] = "agent_run"
    id: Id
    collection_id: Id | None = None
    """Id of the agent run's collection; None to use the collection of the call."""


class TranscriptRef(RequestValue):
    """Reference that inserts a transcript into a prompt.

    The messages of the transcript are labelled `T0B0`, `T0B1` and so on.
    """

    type: Literal["transcript"] = "transcript"
    id: Id
    collection_id: Id | None = None


class ResultRef(RequestValue):
    """Reference that inserts the answer to an earlier request into a prompt. There, the answer is labelled `A0`."""

    type: Literal["result"] = "result"
    id: Id
    result_set_id: Id
    collection_id: Id | None = None


Ref = AgentRunRef | TranscriptRef | ResultRef
Segment = str | Annotated[Ref, Field(discriminator="type")]
_REFS = ("agent_run", "transcript", "result")


def _segment(value: object) -> object:
    """Return the value if it is a text, a reference, or a reference in its stored form.

    Otherwise raise `ValueError`.
    """
    stored = isinstance(value, dict) and value.get("type") in _REFS
    if not stored and not isinstance(value, str | Ref):
        raise ValueError(f"must be a text, an AgentRunRef, a TranscriptRef or a ResultRef, not {_spelled(value)}")
    return value


def _not_blank(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    segments_with_text = tuple(segment for segment in segments if not isinstance(segment, str) or segment.strip())
    if not segments_with_text:
        raise ValueError("is empty")
    return segments_with_text


class Prompt(
    RootModel[
        Annotated[
            tuple[Annotated[Segment, BeforeValidator(_segment)], ...],
            AfterValidator(_not_blank),
        ]
    ]
):
    """A prompt made of texts and references, such as `Prompt(["Why did this fail?", AgentRunRef(id=…)])`.

    Texts that contain only whitespace are dropped. Raises `UsageError` if the prompt is empty or invalid.
    """

    model_config = ConfigDict(frozen=True)

    def __init__(self, segments: Sequence[Segment] | str) -> None:
        super().__init__((segments,) if isinstance(segments, str) else segments)

    @model_validator(mode="wrap")
    @classmethod
    def _one_error(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler((data,) if isinstance(data, str) else data)
        except ValidationError as error:
            raise UsageError(describe_validation_error("Prompt", error)) from None

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self.root

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The references in the prompt, in order and without duplicates."""
        return tuple(dict.fromkeys(segment for segment in self.root if not isinstance(segment, str)))


def _json(value: Any, depth: int = MAX_METADATA_DEPTH) -> Any:
    """Convert a value to a JSON value. Numbers of numpy and pandas become plain numbers, and NaN becomes null."""
    if not depth:
        raise ValueError("is nested too deeply")
    if isinstance(value, dict):
        return {str(name): _json(item, depth - 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item, depth - 1) for item in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


class LLMRequest(RequestValue):
    """One question to a model, such as `LLMRequest(prompt=Prompt([...]), metadata={"task": "12"})`."""

    prompt: Prompt
    metadata: Annotated[dict[str, JsonValue], BeforeValidator(lambda value: _json({} if value is None else value))] = (
        Field(default_factory=dict)
    )
    """The caller's own data. It is returned with the answer as `user_metadata`. NUL and lone surrogates in it become
    U+FFFD."""

    @property
    def digest(self) -> str:
        """Content id of the request."""
        return content_id(self)


def describe_validation_error(name: str, error: ValidationError) -> str:
    """Format a validation error, such as `AgentRunRef: id is missing`."""
    details = error.errors(include_url=False)[0]
    path = reduce(join_path, details["loc"], "")
    match details["type"]:
        case "missing":
            problem = "is missing"
        case "extra_forbidden":
            problem = "is unknown"
        case "value_error":
            problem = str(details["ctx"]["error"])
        case "invalid-json-value":
            problem = f"is not a JSON value but {_spelled(details['input'])}"
        case "tuple_type" | "dict_type":
            problem = (
                f"must be a {'list' if details['type'] == 'tuple_type' else 'dict'}, not {_spelled(details['input'])}"
            )
        case "model_type":
            problem = f"must be made by {details['ctx']['class_name']}(…), not {_spelled(details['input'])}"
        case _:
            problem = f"{details['msg'].replace('Input should', 'must', 1)}, not {_spelled(details['input'])}"
    return f"{name}: {path} {problem}" if path else f"{name}: {problem}"


def _spelled(value: object) -> str:
    return "nothing" if value is None else preview(value)


class CitationTarget(Frozen):
    """The place that a citation refers to: one item of the judged subject, and the quoted span of the item's text."""

    kind: Literal["block", "metadata", "document", "result", "agent_run", "transcript"]
    item: str
    """The label of the item in the prompt, such as `T0B1`, `R0M.scores.reward`, `output src/main.py` or `A0`."""
    agent_run_id: str | None = None
    transcript_id: str | None = None
    block_idx: int | None = None
    metadata_key: str | None = None
    role: Role | None = None
    path: str | None = None
    result_id: str | None = None
    start_idx: int | None = None
    """Offset, in code points, at which the quotation begins in the item's text. `text[start_idx:end_idx]` is the quoted
    text."""
    end_idx: int | None = None
    first: int | None = None
    """1-based number of the first quoted line if the item is a document; otherwise None."""
    last: int | None = None


class ResolvedCitation(Frozen):
    """One citation in the text of an answer, with its status."""

    start_idx: int
    """Offset, in code points, at which the citation begins in the text of the answer. The citation includes its
    brackets."""
    end_idx: int
    quote: str | None = None
    """The text that the judge wrote between `<RANGE>` and `</RANGE>`."""
    status: CitationStatus
    """Status of the citation. `verified`: the cited item contains the quotation. `relocated`: another item
    contains the quotation. `unverified`: no item contains the quotation."""
    target: CitationTarget | None = None
    """The item that contains the quotation; None if the citation is unverified."""


class CitedText(Frozen):
    """A string in an answer, with the citations in it."""

    text: str
    citations: tuple[ResolvedCitation, ...] = ()


class CitationCounts(Frozen):
    verified: int = 0
    relocated: int = 0
    unverified: int = 0

    def __add__(self, other: "CitationCounts") -> "CitationCounts":
        names = CitationCounts.model_fields
        return CitationCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})


class ResultType(StrEnum):
    DIRECT_RESULT = "direct_result"
    FAILURE = "failure"


class JudgeResult(Frozen):
    """The result of one judge for one subject."""

    id: str
    """Content id of the question and all answers to it. If the question is asked again, the new result has a new id."""
    agent_run_id: str
    """Id of the judged subject: the id of an agent run, or `<run id>/<eval path>` for a failed eval."""
    rubric_id: str
    rubric_version: int
    output: dict[str, Any]
    """The answer. It matches the rubric's schema. It is empty if the judge has no result."""
    result_metadata: dict[str, Any] | None = None
    """If there were several rollouts, this contains their votes, their agreement and the rollouts themselves. If the
    judge has no result, this contains the `errors`."""
    result_type: ResultType
    reason: str | None = None
    """The reason why the judge has no result, in one line; None if the judge has a result."""
    citations: CitationCounts = CitationCounts()
    confidence: float | None = None
    """Share of the rollouts that agree with the result. Failed rollouts count as disagreeing. It is None if there was a
    single rollout."""
    judge: str
    """Id of the model that judged, such as `anthropic/claude-opus-5-5`."""
    usage: Usage = Usage()
    """Usage and cost of all rollouts, including retries."""

    @property
    def failure_cause(self) -> NoVerdictCause:
        """The kind of problem that prevented a result. It is `evidence` if no model was called."""
        cause: NoVerdictCause = (self.result_metadata or {}).get("cause", "evidence")
        return cause


class RubricResultCounts(Frozen):
    """Number of stored results and failures of one judge with one version of a rubric."""

    rubric_id: str
    rubric_version: int
    judge: str
    """Id of the judge: a model, or the rules engine with its version."""
    results: int
    failures: int
    """Number of subjects that could not be judged."""


class ResultSet(Frozen):
    """A named set of requests and their results. All results in a set have the same schema."""

    id: str
    collection_id: str
    name: str
    """Name of the set, in the form of a path, such as `failure-analysis/summaries/v1`."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema of the answers; None for free text."""
    created_at: str
    """Time of creation, in ISO 8601, UTC."""


class ResultCounts(Frozen):
    """Number of requests and results in a result set."""

    requests: int = 0
    results: int = 0
    """Number of requests with an answer."""
    errors: int = 0

    @property
    def pending(self) -> int:
        """Number of requests that have neither an answer nor an error.

        Repeating the call sends these requests again.
        """
        return self.requests - self.results - self.errors


class ResultSetSummary(ResultSet):
    """A result set with the number of its requests by outcome."""

    request_count: int
    result_count: int
    error_count: int
    pending_count: int

    @classmethod
    def of(cls, result_set: ResultSet, counts: ResultCounts) -> Self:
        return cls(
            **dict(result_set),
            request_count=counts.requests,
            result_count=counts.results,
            error_count=counts.errors,
            pending_count=counts.pending,
        )


class Result(Frozen):
    """One request with its outcome. A pending request has neither an output nor an error."""

    id: str
    result_set_id: str
    number: int
    """Position of the request in the set, from 0."""
    request: str
    """Content id of the request in the form in which it was submitted."""
    prompt: tuple[Segment, ...]
    user_metadata: dict[str, JsonValue] = Field(default_factory=dict)
    model: str
    """The model, as `provider/name`."""
    effort: str | None = None
    key: str | None = None
    """Content id of the whole question, including the content that references insert. It is None until the question is
    sent."""
    output: dict[str, Any] | None = None
    """The answer: `{"output": text, "citations": […]}`, or an object that matches the set's schema. In such an object,
    a string with citations is replaced by `{"text": …, "citations": […]}`."""
    error: str | None = None
    """The reason why the request has no answer, in one line."""
    final: bool = False
    """True for an error that would occur again if the same request were repeated."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    """Cost of this result in USD; 0 if the answer was already stored."""
    created_at: str
    """Time of the answer in ISO 8601, UTC. If there is no answer, this is the time of the request."""

    @property
    def open(self) -> bool:
        """Whether the request still has to be sent."""
        return self.output is None and not self.final

    @property
    def citations(self) -> CitationCounts:
        """Number of the answer's citations by status."""
        return sum((CitationCounts(**{status: 1}) for status in _statuses(self.output)), CitationCounts())


class ResultLine(Frozen):
    """A result without its prompt, as the Python client and MCP return it."""

    id: str
    number: int
    user_metadata: dict[str, JsonValue]
    output: dict[str, Any] | None
    """The answer. A text with citations is replaced by `{"text": …, "citations": […]}`, and each citation has its
    status."""
    error: str | None
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float
    created_at: str
    citations: CitationCounts

    @classmethod
    def of(cls, result: Result) -> Self:
        return cls(**{name: getattr(result, name) for name in cls.model_fields})


def _statuses(output: object) -> Iterator[str]:
    if isinstance(output, list):
        for item in output:
            yield from _statuses(item)
    if not isinstance(output, dict):
        return
    citations = output.get("citations")
    # The answer as free text has the key `output`. Inside an object, a cited string has the key `text`.
    if isinstance(output.get("text", output.get("output")), str) and isinstance(citations, list):
        yield from (item["status"] for item in citations if isinstance(item, dict) and "status" in item)
        return
    for item in output.values():
        yield from _statuses(item)
