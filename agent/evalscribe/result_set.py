"""What models answered to requests, kept under a name."""

from collections.abc import Iterator
from typing import Any, Self

from pydantic import Field, JsonValue

from evalscribe.ids import Frozen
from evalscribe.judge_result import CitationCounts
from evalscribe.llm_request import Segment


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


class ListedSet(ResultSet):
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
