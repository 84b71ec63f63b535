"""Requests to chat models, their replies and failures."""

from datetime import datetime
from typing import Any, Literal

from evalscribe.errors import EvalscribeError
from evalscribe.ids import Frozen

StopReason = Literal["end", "tool_use", "max_tokens", "refusal", "context_exceeded", "pause", "unknown"]
Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]


class Usage(Frozen):
    """What calls consumed. Input tokens are whole: cache reads and writes are parts of them, priced apart."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})


class Tool(Frozen):
    """A tool offered to a model; `input_schema` is a flat, strict JSON Schema object."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ToolCall(Frozen):
    id: str
    name: str
    input: dict[str, Any]


class ToolResult(Frozen):
    call_id: str
    text: str
    is_error: bool = False


class Message(Frozen):
    """One turn. An assistant's turn keeps the provider's own content, to be echoed unchanged."""

    role: Literal["user", "assistant"]
    text: str = ""
    tool_results: tuple[ToolResult, ...] = ()
    raw: Any = None


class Request(Frozen):
    """One call of a model."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    max_tokens: int = 4096
    """Bound of the answer, thinking included."""
    effort: Effort | None = None
    """How hard the model thinks; None leaves it to the provider."""
    answer_schema: dict[str, Any] | None = None
    """JSON Schema that the provider must hold the answer's text to (structured output); None for free text."""
    rollout: int = 0
    """Tells equal questions apart that are asked several times; never sent."""


class Reply(Frozen):
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    stop: StopReason
    usage: Usage
    raw: Any = None
    """The provider's assistant content, for `Message.raw`."""
    billed_before: bool = False
    """Whether an earlier call took this answer of a batch, which is billed once: it adds nothing to what is spent."""


FailureCause = Literal["service", "budget", "answer"]
"""Cause of a failed call: the service did not answer, the budget is too small, or the answer cannot be used."""


class CallFailed(Exception):
    """One call of a model failed for good, for a reason that concerns this call only.

    What concerns all calls (401, 403, unknown model, host unreachable) is an `EvalscribeError`.
    """

    cause: FailureCause = "service"

    def __init__(
        self, reason: str, usage: Usage | None = None, *, free: bool = False, cause: FailureCause | None = None
    ) -> None:
        """`free`: it is certain that nothing was consumed. Without it and without usage, anything may have been."""
        super().__init__(reason)
        self.reason = reason
        self.usage = usage or Usage()
        self.free = free
        self.cause = cause or self.cause


class BudgetExceeded(CallFailed):
    """The budget has no room for the call. Nothing was consumed."""

    cause = "budget"

    def __init__(self, reason: str) -> None:
        super().__init__(reason, free=True)


class TransientFailure(CallFailed):
    """`after`: seconds that the service asked to wait. `limited`: it limits the rate of calls.

    `ends_all`: what to raise once the retries are spent.
    """

    def __init__(
        self,
        reason: str,
        *,
        free: bool = False,
        after: float | None = None,
        limited: bool = False,
        ends_all: EvalscribeError | None = None,
    ) -> None:
        super().__init__(reason, free=free)
        self.after = after
        self.limited = limited
        self.ends_all = ends_all


class BatchIntent(Frozen):
    """Requests of one batch, stored before the batch is sent."""

    id: str
    keys: tuple[str, ...]
    """Content ids of the requests, which are also their ids in the batch."""
    created: datetime
    """Not later than the batch; with a time zone."""
    batch_id: str | None = None
    """None until the service has returned it, and while it is unknown whether it did."""


class UnansweredQuestion(Frozen):
    """A request that its batch did not answer."""

    reason: str
    charged: bool = False
    """True if it may have been charged nevertheless; the first to take it counts the cost."""
