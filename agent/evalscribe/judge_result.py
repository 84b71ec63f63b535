"""What a judge made of one subject, with every citation resolved."""

from enum import StrEnum
from typing import Any, Literal

from evalscribe.chat import Usage
from evalscribe.evidence import CitationStatus, Role
from evalscribe.ids import Frozen


class Target(Frozen):
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
    target: Target | None = None
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
