"""Scores: what a scorer said of one run item, with all that it saw."""

from typing import Literal

from pydantic import Field, JsonValue

from evalscribe.chat import Usage
from evalscribe.ids import Frozen
from evalscribe.target import Trace

ScoreStatus = Literal["ok", "unscored", "error"]
"""`unscored`: the scorer abstains; `error`: it broke. Neither is ever a score of 0."""
ScoreErrorType = Literal[
    "input_error", "config_error", "provider_error", "auth_error", "artifact_error", "timeout_error", "scorer_error"
]
"""`artifact_error`: the trace or state that it needs is not there; `scorer_error`: its own code broke."""


class ScoreResult(Frozen):
    """What a scorer says. `passed` and `value` are None exactly where `status` is not `ok`."""

    status: ScoreStatus = "ok"
    value: float | None = None
    """From 0 to 1."""
    passed: bool | None = None
    label: str | None = None
    explanation: str
    """Why, in a sentence or two; never empty."""
    error_type: ScoreErrorType | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    evidence: JsonValue = None
    """What the explanation rests on: differing places, calls, citations of a judge with their status."""
    output: JsonValue = None
    """The scorer's raw answer, where it has one: what a model replied, what a function returned."""
    usage: Usage = Usage()


class ScorerRequest(Frozen):
    """What a scorer is given; stored whole as `scorer_input`."""

    input: JsonValue
    output: JsonValue
    expected: JsonValue = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    trace: Trace | None = None
    """None where nothing was recorded."""
    transcript: str | None = None
    """As text."""
    peer_scores: dict[str, ScoreResult] = Field(default_factory=dict)
    """By name, of the scorers that this one depends on."""


class Score(Frozen):
    """One score as it is stored: never changed, superseded by a later one."""

    id: str
    """`score-…`"""
    run_id: str
    run_item_id: str
    item_key: str
    repetition: int
    scorer: str
    """Name of its binding."""
    scorer_version_id: str
    required: bool = True
    status: ScoreStatus
    value: float | None = None
    passed: bool | None = None
    label: str | None = None
    explanation: str
    error_type: ScoreErrorType | None = None
    cost_usd: float = 0.0
    supersedes: str | None = None
    """The score that it replaced."""
    current: bool = True
    """False once another one superseded it."""
    reason: str | None = None
    """Why it was scored again."""
    created_at: str


class ScoreEvidence(Frozen):
    """The exact material of a score."""

    scorer_input: JsonValue = None
    """A `ScorerRequest`; scorers that saw the same share it, so the `config` stands in `metadata`."""
    scorer_output: JsonValue = None
    """The raw answer."""
    evidence: JsonValue = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
