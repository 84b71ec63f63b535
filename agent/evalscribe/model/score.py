"""Scorers with their configuration, and the scores that they give."""

from functools import cached_property
from typing import Literal, Protocol, Self

from pydantic import Field, JsonValue

from evalscribe.ids import Frozen
from evalscribe.model.chat import Usage
from evalscribe.model.dataset import short_id
from evalscribe.model.rubric import Rubric
from evalscribe.model.target import Trace

CUSTOM = "custom"
"""Value of `ScorerSpec.scorer` for a user's own function."""


class ScorerSpec(Frozen):
    """An immutable scorer with its validated configuration."""

    name: str
    """Displayed name: the user's own name, or the name (or alias) by which a built-in scorer was requested."""
    scorer: str
    """Canonical name of a built-in, or `custom`."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """The complete config, including defaults."""
    address: str | None = None
    """For a custom scorer: `package.module:function`."""
    code: str | None = None
    """Content id of a custom scorer's source, or name and version (`contains/1`) of a built-in without a model."""
    rubric: Rubric | None = None
    """For a judge: the stored rubric version."""
    model: str | None = None
    """For a judge: `provider/name`."""
    depends_on: tuple[str, ...] = ()
    """Names of the scorers whose results this scorer receives."""

    @cached_property
    def id(self) -> str:
        """`scv-…`; equal ids mean equal scorers."""
        body = self.model_dump(mode="json", exclude={"rubric"})
        return short_id("scv", [body, self.rubric.digest if self.rubric else None])

    def __copy__(self) -> Self:
        """Drop the cached id, because `model_copy` can change the fields from which the id is derived."""
        copied = super().__copy__()
        copied.__dict__.pop("id", None)
        return copied


class Binding(Frozen):
    """A scorer that is attached to an experiment."""

    spec: ScorerSpec
    scorer_id: str | None = None
    """Id of the `Scorer` that a user created; None for a built-in scorer that was attached directly."""
    required: bool = True
    """Whether an item passes only if it passes this scorer."""
    threshold: float | None = None
    """Lowest passing value; None if the scorer's own rule decides."""


class Scorer(Frozen):
    """The newest version of a scorer that a user created under a name."""

    id: str
    """`scorer-…`"""
    name: str
    """Unique; commands accept it in place of the id."""
    description: str = ""
    spec: ScorerSpec
    folder: str = ""
    """Absolute path of the folder from which a user's own function is imported; not part of the version."""
    number: int = 1
    created_at: str


ScoreStatus = Literal["ok", "unscored", "error"]
"""`unscored`: the scorer abstained. `error`: the scorer broke. Neither counts as a score of 0."""
ScoreErrorType = Literal[
    "input_error", "config_error", "provider_error", "auth_error", "artifact_error", "timeout_error", "scorer_error"
]
"""`artifact_error`: a trace or state that the scorer needs is missing; `scorer_error`: the scorer's code broke."""


class ScoreResult(Frozen):
    """The result of a scorer. `passed` and `value` are None exactly if `status` is not `ok`."""

    status: ScoreStatus = "ok"
    value: float | None = None
    """From 0 to 1."""
    passed: bool | None = None
    label: str | None = None
    explanation: str
    """The reason, in a sentence or two; never empty."""
    error_type: ScoreErrorType | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    evidence: JsonValue = None
    """Basis of the explanation: differing places, tool calls, or a judge's citations with their status."""
    output: JsonValue = None
    """The scorer's raw answer, if it has one: a model's reply or a function's return value."""
    usage: Usage = Usage()


class ScorerRequest(Frozen):
    """The input of a scorer. All of it is stored as `scorer_input`."""

    input: JsonValue
    output: JsonValue
    expected: JsonValue = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    trace: Trace | None = None
    """None if the target recorded no trace."""
    transcript: str | None = None
    """The transcript as rendered text."""
    peer_scores: dict[str, ScoreResult] = Field(default_factory=dict)
    """Results of the scorers in `depends_on`, by name."""


class Score(Frozen):
    """One stored score. It never changes, but a later score can supersede it."""

    id: str
    """`score-…`"""
    run_id: str
    run_item_id: str
    item_key: str
    repetition: int
    scorer: str
    """Name of the scorer's binding."""
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
    """Id of the score that this one replaced."""
    current: bool = True
    """False once another score superseded it."""
    reason: str | None = None
    """Why the item was scored again."""
    created_at: str


class ScoreEvidence(Frozen):
    """The exact input, output and evidence of a score."""

    scorer_input: JsonValue = None
    """A `ScorerRequest`. Scorers with the same input share it, so a scorer's `config` is in `metadata` instead."""
    scorer_output: JsonValue = None
    """The scorer's raw answer."""
    evidence: JsonValue = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class ScoreQuery(Frozen):
    """A filter for scores; None matches any value."""

    run_id: str | None = None
    run_item_id: str | None = None
    scorer: str | None = None
    """Name of the scorer's binding, or id of the created scorer."""
    scorer_version_id: str | None = None
    passed: bool | None = None
    status: str | None = None
    since: str | None = None
    until: str | None = None
    """ISO 8601; `until` is exclusive."""
    superseded: bool = False
    """Whether to return superseded scores, too."""


class ScorerRunner(Protocol):
    """A scorer bound to an experiment, ready to score."""

    name: str
    depends_on: tuple[str, ...]

    async def score(self, request: ScorerRequest) -> ScoreResult:
        """Score one item. If a problem concerns only this item, the result has the status `error`.

        Raises:
            EvalscribeError: The problem affects all items.
        """

    async def close(self) -> None: ...
