"""Requests to chat models, their replies and failures."""

from datetime import datetime
from typing import Any, Literal

from evalscribe.errors import EvalscribeError
from evalscribe.ids import Frozen

StopReason = Literal["end", "tool_use", "max_tokens", "refusal", "context_exceeded", "pause", "unknown"]
Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]


class Usage(Frozen):
    """Usage of model calls.

    `input_tokens` includes tokens read from and written to a cache, although their prices differ.
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
    """One turn of a chat.

    For an assistant's turn, `raw` is the content in the provider's own format. It is sent back unchanged.
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
    """Number that distinguishes requests that repeat the same question. Never sent to the model."""


class Reply(Frozen):
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    stop: StopReason
    usage: Usage
    raw: Any = None
    """The provider's own assistant content, for `Message.raw`."""
    billed_before: bool = False
    """True for an answer from a batch if an earlier call already counted its cost."""


FailureCause = Literal["service", "budget", "answer"]
"""Why a call failed. `service`: the service did not answer. `budget`: the budget is too small. `answer`: the answer
cannot be used."""


class CallFailed(Exception):
    """A model call failed permanently, for a reason that concerns this call only.

    A problem that concerns all calls (401, 403, unknown model, host unreachable) is an `EvalscribeError`.
    """

    cause: FailureCause = "service"

    def __init__(
        self, reason: str, usage: Usage | None = None, *, free: bool = False, cause: FailureCause | None = None
    ) -> None:
        """Store the reason.

        `free` means that the call consumed nothing. Without `free` and `usage`, its consumption is unknown.
        """
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
    """A call failed for a reason that may be temporary, so it is retried.

    `after` is the number of seconds to wait, if the service gives one. `limited` is true for a rate limit. `ends_all`
    is raised in place of this exception after the last retry.
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
    """Content ids of the requests. The batch uses the same ids."""
    created: datetime
    """A time before the batch was created, with a time zone."""
    batch_id: str | None = None
    """Id that the service returned; None if it returned none. The service might have created the batch nevertheless."""


class UnansweredQuestion(Frozen):
    """A request to which the batch has no answer."""

    reason: str
    charged: bool = False
    """True if the service might have charged for the request. The first call that reads this value counts the cost."""
