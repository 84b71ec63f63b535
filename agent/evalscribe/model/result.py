"""Requests to models, the results of judges, and stored sets of results."""

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
"""Levels of metadata."""


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if not is_clean(text):
        raise ValueError("contains NUL or an invalid character (a lone surrogate)")
    return text


Id = Annotated[str, Field(strict=True), AfterValidator(_said)]


class RequestValue(Frozen):
    """Values whose making raises only `UsageError`, which says what is wrong where."""

    called: ClassVar[str | None] = None
    """What errors call it; None for the name of its class."""

    @model_validator(mode="wrap")
    @classmethod
    def _one_error(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise UsageError(describe_validation_error(cls.called or cls.__name__, error)) from None


class AgentRunRef(RequestValue):
    """All of an agent run: metadata and every transcript, in the prompt as `R0`, `T0B0` …"""

    type: Literal["agent_run"] = "agent_run"
    id: Id
    collection_id: Id | None = None
    """Without one, the collection that is asked about."""


class TranscriptRef(RequestValue):
    """One transcript, in the prompt as `T0B0`, `T0B1` …"""

    type: Literal["transcript"] = "transcript"
    id: Id
    collection_id: Id | None = None


class ResultRef(RequestValue):
    """What an earlier request was answered, in the prompt as `A0`."""

    type: Literal["result"] = "result"
    id: Id
    result_set_id: Id
    collection_id: Id | None = None


Ref = AgentRunRef | TranscriptRef | ResultRef
Segment = str | Annotated[Ref, Field(discriminator="type")]
_REFS = ("agent_run", "transcript", "result")


def _segment(value: object) -> object:
    """A text, a reference, or a reference as it was stored."""
    stored = isinstance(value, dict) and value.get("type") in _REFS
    if not stored and not isinstance(value, str | Ref):
        raise ValueError(f"must be a text, an AgentRunRef, a TranscriptRef or a ResultRef, not {_spelled(value)}")
    return value


def _said_at_all(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    kept = tuple(one for one in segments if not isinstance(one, str) or one.strip())
    if not kept:
        raise ValueError("is empty")
    return kept


class Prompt(
    RootModel[
        Annotated[
            tuple[Annotated[Segment, BeforeValidator(_segment)], ...],
            AfterValidator(_said_at_all),
        ]
    ]
):
    """`Prompt(["Why did this fail?", AgentRunRef(id=…)])`: texts and references, in the order they are read.

    Texts stay as they are; one of white space only is left out. Raises `UsageError`.
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
        """Each once, in order."""
        return tuple(dict.fromkeys(one for one in self.root if not isinstance(one, str)))


def _json(value: Any, left: int = MAX_METADATA_DEPTH) -> Any:
    """As JSON has it: numbers of numpy and pandas become numbers, what is not a number becomes null."""
    if not left:
        raise ValueError("is nested too deeply")
    if isinstance(value, dict):
        return {str(name): _json(one, left - 1) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json(one, left - 1) for one in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


class LLMRequest(RequestValue):
    """One question to a model. `LLMRequest(prompt=Prompt([...]), metadata={"task": "12"})`"""

    prompt: Prompt
    metadata: Annotated[dict[str, JsonValue], BeforeValidator(lambda value: _json({} if value is None else value))] = (
        Field(default_factory=dict)
    )
    """Comes back beside the answer, as `user_metadata`; NUL and lone surrogates as U+FFFD."""

    @property
    def digest(self) -> str:
        """Content id: equal requests are one."""
        return content_id(self)


def describe_validation_error(name: str, error: ValidationError) -> str:
    """`AgentRunRef: id is missing`."""
    details = error.errors(include_url=False)[0]
    path = reduce(join_path, details["loc"], "")
    match details["type"]:
        case "missing":
            told = "is missing"
        case "extra_forbidden":
            told = "is unknown"
        case "value_error":
            told = str(details["ctx"]["error"])
        case "invalid-json-value":
            told = f"is not a JSON value but {_spelled(details['input'])}"
        case "tuple_type" | "dict_type":
            told = (
                f"must be a {'list' if details['type'] == 'tuple_type' else 'dict'}, not {_spelled(details['input'])}"
            )
        case "model_type":
            told = f"must be made by {details['ctx']['class_name']}(…), not {_spelled(details['input'])}"
        case _:
            told = f"{details['msg'].replace('Input should', 'must', 1)}, not {_spelled(details['input'])}"
    return f"{name}: {path} {told}" if path else f"{name}: {told}"


def _spelled(value: object) -> str:
    return "nothing" if value is None else preview(value)


class CitationTarget(Frozen):
    """What a citation leads to: one item of a subject, and the span of its text that was quoted."""

    kind: Literal["block", "metadata", "document", "result", "agent_run", "transcript"]
    item: str
    """As it is cited: `T0B1`, `R0M.scores.reward`, `output src/main.py`, `A0`."""
    agent_run_id: str | None = None
    transcript_id: str | None = None
    block_idx: int | None = None
    metadata_key: str | None = None
    role: Role | None = None
    path: str | None = None
    result_id: str | None = None
    start_idx: int | None = None
    """Code points into the item's own text, for a quotation: `text[start_idx:end_idx]` is what really stands there."""
    end_idx: int | None = None
    first: int | None = None
    """First line, from 1, for documents."""
    last: int | None = None


class ResolvedCitation(Frozen):
    """One citation in an answer's text, and whether it holds."""

    start_idx: int
    """Code points into the citing text, brackets included."""
    end_idx: int
    quote: str | None = None
    """The text between `<RANGE>` and `</RANGE>`, as the judge wrote it."""
    status: CitationStatus
    """`verified`: the item is there and holds the quotation; `relocated`: another item does; else `unverified`."""
    target: CitationTarget | None = None
    """None where nothing that is there was cited: an unverified citation never has one."""


class CitedText(Frozen):
    """A string of an answer with its citations."""

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
    """What one judge made of one subject."""

    id: str
    """Content id of the question and of all that was answered to it: asked again, the answer has another one."""
    agent_run_id: str
    """Id of the subject: an agent run's, or `<run id>/<eval path>` for a failed eval."""
    rubric_id: str
    rubric_version: int
    output: dict[str, Any]
    """Fits the rubric's schema; empty for a failure."""
    result_metadata: dict[str, Any] | None = None
    """Votes, agreement and rollouts where there were several; `errors` for a failure."""
    result_type: ResultType
    reason: str | None = None
    """Why there is no result, in one line; None where there is one."""
    citations: CitationCounts = CitationCounts()
    confidence: float | None = None
    """Share of the rollouts that agree with the result, failed ones counted; None for a single rollout."""
    judge: str
    """Id of the model: `anthropic/claude-opus-5-5`."""
    usage: Usage = Usage()
    """Of all rollouts, retries included; `usage.cost_usd` is the cost."""

    @property
    def failure_cause(self) -> NoVerdictCause:
        """Why a failure has no result; `evidence` if no model was asked."""
        cause: NoVerdictCause = (self.result_metadata or {}).get("cause", "evidence")
        return cause


class ResultSet(Frozen):
    """Results that belong together, asked for by one script. All have one schema."""

    id: str
    collection_id: str
    name: str
    """Parts between slashes, as a path has them: `failure-analysis/summaries/v1`."""
    output_schema: dict[str, Any] | None = None
    """None where answers are free text."""
    created_at: str
    """ISO 8601, UTC."""


class ResultCounts(Frozen):
    """How many results of a set are there."""

    requests: int = 0
    results: int = 0
    """Of those, so many have an answer."""
    errors: int = 0

    @property
    def pending(self) -> int:
        """Neither answered nor given up: the same call asks for them."""
        return self.requests - self.results - self.errors


class ResultSetSummary(ResultSet):
    """A set with how far it is."""

    request_count: int
    result_count: int
    error_count: int
    pending_count: int

    @classmethod
    def of(cls, made: ResultSet, counts: ResultCounts) -> Self:
        return cls(
            **dict(made),
            request_count=counts.requests,
            result_count=counts.results,
            error_count=counts.errors,
            pending_count=counts.pending,
        )


class Result(Frozen):
    """One request and what became of it; neither output nor error while it waits."""

    id: str
    result_set_id: str
    number: int
    """From 0, in the order of the requests."""
    request: str
    """Content id of the request as it was given."""
    prompt: tuple[Segment, ...]
    user_metadata: dict[str, JsonValue] = Field(default_factory=dict)
    model: str
    """`provider/name`."""
    effort: str | None = None
    key: str | None = None
    """Content id of the question with all that the prompt showed; None until it is asked."""
    output: dict[str, Any] | None = None
    """`{"output": text, "citations": […]}`, or what fits the set's schema, its citing strings as
    `{"text": …, "citations": […]}`."""
    error: str | None = None
    """Why there is no answer, in one line."""
    final: bool = False
    """Of an error: asking the same again is pointless."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    """What this result cost: nothing where the answer was known."""
    created_at: str
    """ISO 8601, UTC: when it was answered, or else asked for."""

    @property
    def open(self) -> bool:
        """Whether it is worth asking for."""
        return self.output is None and not self.final

    @property
    def citations(self) -> CitationCounts:
        """Whether what the answer cites holds."""
        return sum((CitationCounts(**{status: 1}) for status in _statuses(self.output)), CitationCounts())


class ResultLine(Frozen):
    """A result without its prompt, as the Python client and MCP return it."""

    id: str
    number: int
    user_metadata: dict[str, JsonValue]
    output: dict[str, Any] | None
    """The answer; a text with citations is `{"text", "citations"}`, each with its status."""
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
        for one in output:
            yield from _statuses(one)
    if not isinstance(output, dict):
        return
    citations = output.get("citations")
    if isinstance(output.get("text", output.get("output")), str) and isinstance(citations, list):
        yield from (one["status"] for one in citations if isinstance(one, dict) and "status" in one)
        return
    for one in output.values():
        yield from _statuses(one)
