"""Define requests to chat models, the models' replies, and failed calls."""

from datetime import datetime
from typing import Any, Literal

from evalscribe.errors import EvalscribeError
from evalscribe.ids import Frozen

StopReason = Literal["end", "tool_use", "max_tokens", "refusal", "context_exceeded", "pause", "unknown"]
Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]


class Usage(Frozen):
    """Tokens and cost of model calls.

    `input_tokens` includes the tokens that were read from or written to a cache, although such tokens have other
    prices.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})


class Tool(Frozen):
    """A tool offered to a model. `input_schema` is a strict JSON Schema for a flat object."""

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
    """One turn of a chat.

    For an assistant's turn, `raw` is the content in the provider's own format. This content is sent back to the
    provider unchanged.
    """

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
    """Maximum number of tokens in the answer, including thinking."""
    effort: Effort | None = None
    """Reasoning effort of the model; None to use the provider's default."""
    answer_schema: dict[str, Any] | None = None
    """JSON Schema that the provider enforces (structured output); None for free text."""
    rollout: int = 0
    """Number that distinguishes repeated requests with the same question. It is never sent to the model."""


class Reply(Frozen):
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    stop: StopReason
    usage: Usage
    raw: Any = None
    """The assistant's content in the provider's own format, for use as `Message.raw`."""
    billed_before: bool = False
    """True if the answer is from a batch and an earlier call already counted the cost of this answer."""


FailureCause = Literal["service", "budget", "answer"]
"""Why a model call failed. `service`: the service did not answer. `budget`: the budget is too small. `answer`: the
answer cannot be used."""


class CallFailed(Exception):
    """Raised if a model call failed permanently for a reason that concerns only this call.

    A problem that concerns all calls (status 401 or 403, unknown model, unreachable host) raises an `EvalscribeError`
    instead.
    """

    cause: FailureCause = "service"

    def __init__(
        self, reason: str, usage: Usage | None = None, *, free: bool = False, cause: FailureCause | None = None
    ) -> None:
        """Store the reason.

        `free` means that the call consumed no tokens. If neither `free` nor `usage` is given, the usage of the call is
        unknown.
        """
        super().__init__(reason)
        self.reason = reason
        self.usage = usage or Usage()
        self.free = free
        self.cause = cause or self.cause


class BudgetExceeded(CallFailed):
    """Raised if the remaining budget is too small for the call. The call was not sent and consumed nothing."""

    cause = "budget"

    def __init__(self, reason: str) -> None:
        super().__init__(reason, free=True)


class TransientFailure(CallFailed):
    """Raised if a call failed for a reason that might be temporary. The call is then retried.

    `after` is the number of seconds to wait before the retry, if the service gives such a number. `limited` is true if
    a rate limit was reached. If `ends_all` is given, it is raised once all retries have failed.
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
    """The requests of one batch, as stored before the batch is sent."""

    id: str
    keys: tuple[str, ...]
    """Content ids of the requests. The batch that is sent uses the same ids."""
    created: datetime
    """Time, with time zone, at which this object was created. The batch is created later."""
    batch_id: str | None = None
    """Id that the service returned for the batch. None if the service returned no id. In that case, the service might
    have created the batch nevertheless."""


class UnansweredQuestion(Frozen):
    """A request to which the batch has no answer."""

    reason: str
    charged: bool = False
    """True if the service might have charged for the request. The cost is counted by the first call that reads this
    value."""
