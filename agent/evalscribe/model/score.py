"""Define scorers with their configuration, and the scores that they give."""

from functools import cached_property
from typing import Literal, Protocol, Self

from pydantic import Field, JsonValue

from evalscribe.ids import Frozen
from evalscribe.model.chat import Usage
from evalscribe.model.dataset import short_id
from evalscribe.model.rubric import Rubric
from evalscribe.model.target import Trace

CUSTOM = "custom"
"""Value of `ScorerSpec.scorer` if the scorer is a user's own function."""


class ScorerSpec(Frozen):
    """Immutable definition of a scorer with its validated configuration."""

    name: str
    """Displayed name of the scorer: a name that the user chose, or the name or alias under which a built-in scorer was
    requested."""
    scorer: str
    """Canonical name of a built-in scorer, or `custom`."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """The complete configuration of the scorer, including defaults."""
    address: str | None = None
    """Address of a custom scorer, as `package.module:function`; otherwise None."""
    code: str | None = None
    """For a custom scorer, the content id of its source code. For a built-in scorer that uses no model, its name and
    version, such as `contains/1`."""
    rubric: Rubric | None = None
    """If the scorer is a judge, the stored version of its rubric."""
    model: str | None = None
    """If the scorer is a judge, its model, as `provider/name`."""
    depends_on: tuple[str, ...] = ()
    """Names of the scorers whose results this scorer receives."""

    @cached_property
    def id(self) -> str:
        """Id of the scorer's definition, in the form `scv-…`. Equal ids mean equal scorers."""
        # The rubric's digest leaves out its id and version, so an equal rubric under another name is the same scorer.
        body = self.model_dump(mode="json", exclude={"rubric"})
        return short_id("scv", [body, self.rubric.digest if self.rubric else None])

    def __copy__(self) -> Self:
        """Copy the value without its cached id, because `model_copy` can change the fields from which the id is
        derived."""
        copied = super().__copy__()
        copied.__dict__.pop("id", None)
        return copied


class Binding(Frozen):
    """A scorer that is attached to an experiment."""

    spec: ScorerSpec
    scorer_id: str | None = None
    """Id of the `Scorer` that a user created; None if a built-in scorer was attached directly."""
    required: bool = True
    """Whether an item passes only if it passes this scorer."""
    threshold: float | None = None
    """Lowest passing value; None if the scorer's own rule decides whether a value passes."""


class Scorer(Frozen):
    """The newest version of a named scorer that a user created."""

    id: str
    """Id of the scorer, in the form `scorer-…`."""
    name: str
    """Unique name of the scorer. Commands accept the name in place of the id."""
    description: str = ""
    spec: ScorerSpec
    folder: str = ""
    """Absolute path of the folder from which a user's own function is imported. The folder is not part of the scorer's
    version."""
    number: int = 1
    created_at: str


ScoreStatus = Literal["ok", "unscored", "error"]
"""Status of a score. `unscored`: the scorer abstained. `error`: the scorer broke. Neither of them counts as a score of
0."""
ScoreErrorType = Literal[
    "input_error", "config_error", "provider_error", "auth_error", "artifact_error", "timeout_error", "scorer_error"
]
"""Type of a scorer's error. `artifact_error`: a trace or state that the scorer needs is missing. `scorer_error`: the
scorer's code broke."""


class ScoreResult(Frozen):
    """The result of a scorer. `passed` and `value` are None if and only if `status` is not `ok`."""

    status: ScoreStatus = "ok"
    value: float | None = None
    """Value of the score, from 0 to 1."""
    passed: bool | None = None
    label: str | None = None
    explanation: str
    """The reason for the result in one or two sentences. It is never empty."""
    error_type: ScoreErrorType | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    evidence: JsonValue = None
    """Data on which the explanation is based: places that differ, tool calls, or a judge's citations with their status.
    """
    output: JsonValue = None
    """The raw answer of the scorer, if any: the reply of a model or the return value of a function."""
    usage: Usage = Usage()


class ScorerRequest(Frozen):
    """The input of a scorer. The whole input is stored as `scorer_input`."""

    input: JsonValue
    output: JsonValue
    expected: JsonValue = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    trace: Trace | None = None
    """Trace of the target's actions; None if the target recorded no trace."""
    transcript: str | None = None
    """The transcript as rendered text."""
    peer_scores: dict[str, ScoreResult] = Field(default_factory=dict)
    """Results of the scorers in `depends_on`, by scorer name."""


class Score(Frozen):
    """One stored score. A score never changes, but a later score can supersede it."""

    id: str
    """Id of the score, in the form `score-…`."""
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
    """Id of the earlier score that this score superseded."""
    current: bool = True
    """Whether the score is current. False once a later score has superseded it."""
    reason: str | None = None
    """The reason why the item was scored again."""
    created_at: str


class ScoreEvidence(Frozen):
    """The exact input, output and evidence of a score."""

    scorer_input: JsonValue = None
    """Input of the scorer: a `ScorerRequest`. Scorers with the same input share this value, so the scorer's `config` is
    not in it but in `metadata`."""
    scorer_output: JsonValue = None
    """The scorer's raw answer."""
    evidence: JsonValue = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class ScoreQuery(Frozen):
    """A filter for scores. A field that is None matches any value."""

    run_id: str | None = None
    run_item_id: str | None = None
    scorer: str | None = None
    """Name of the scorer's binding, or id of a scorer that a user created."""
    scorer_version_id: str | None = None
    passed: bool | None = None
    status: str | None = None
    since: str | None = None
    until: str | None = None
    """Time in ISO 8601. Only scores that were created before this time match."""
    superseded: bool = False
    """Whether superseded scores are also returned."""


class ScorerRunner(Protocol):
    """A scorer that is attached to an experiment and ready to score."""

    name: str
    depends_on: tuple[str, ...]

    async def score(self, request: ScorerRequest) -> ScoreResult:
        """Score one item. If a problem affects only this item, the result has the status `error`.

        Raises:
            EvalscribeError: The problem affects all items.
        """

    async def close(self) -> None: ...
