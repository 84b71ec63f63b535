"""What a target is handed and what it gives back, with the trace of its work."""

from typing import Literal

from pydantic import Field, JsonValue

from evalscribe.agent_run import Transcript
from evalscribe.chat import Usage
from evalscribe.ids import Frozen

FailureKind = Literal["error", "timeout", "cancelled"]


class TargetCall(Frozen):
    """One try at one item. What is expected is never handed to a target."""

    run_id: str
    item_key: str
    repetition: int
    """From 1."""
    input: JsonValue
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    timeout_s: float = 300.0

    @property
    def idempotency_key(self) -> str:
        """The same when this try is made again after its worker died."""
        return f"{self.run_id}/{self.item_key}/{self.repetition}"


class TargetReply(Frozen):
    """An answer. `output` alone is enough; the rest lets scorers look into how it came about."""

    output: JsonValue
    transcript: Transcript | None = None
    """Its messages, with the calls of tools and what these gave."""
    state: dict[str, JsonValue] = Field(default_factory=dict)
    """Named snapshots, for the scorer `state_equals`."""
    usage: Usage | None = None
    """None where the target does not say."""
    model: str | None = None
    duration_ms: float = 0.0
    log: str = ""
    """The end of what it wrote to standard error (a command) or printed (Python)."""


class TargetFailed(Frozen):
    """A try that gave no answer, for a reason that concerns this item only."""

    kind: FailureKind = "error"
    reason: str
    """One line."""
    log: str = ""
    """Traceback or the end of standard error."""
    transcript: Transcript | None = None
    usage: Usage | None = None
    duration_ms: float = 0.0


class ToolUse(Frozen):
    """One call of a tool in a trace."""

    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    failed: bool = False
    error: str | None = None


class Trace(Frozen):
    """What a target did, as scorers of traces see it. None stands for what the target does not tell."""

    recorded: bool = True
    """Whether it gave its messages. Without them nothing is known of its tools: to have called none is no finding."""
    tools: tuple[ToolUse, ...] = ()
    """In order."""
    model_calls: int | None = None
    tokens: int | None = None
    """Input and output."""
    duration_ms: float | None = None
    errors: tuple[str, ...] = ()
    state: dict[str, JsonValue] = Field(default_factory=dict)
