"""Make a single attempt to get an answer from a model.

An attempt has a time limit and can be streamed. It maps the provider's failures to exceptions.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

import httpx2

from evalscribe.errors import AccessError, EvalscribeError, UnavailableError, UsageError
from evalscribe.ids import Frozen
from evalscribe.model.chat import CallFailed, TransientFailure
from evalscribe.model.protocols import OnText
from evalscribe.settings.access import Provider
from evalscribe.settings.http import AnswerTooLarge

if TYPE_CHECKING:
    import anthropic
    import openai

T = TypeVar("T")
F = TypeVar("F", bound=Exception)
# Give up on a host that accepts no connection within this time. The time limit for an answer is much longer.
CONNECT_S = 10.0


async def attempt(work: Awaitable[T], timeout_s: float, mapped: Callable[[Exception], Exception]) -> T:
    """Await a call within a time limit.

    If the SDK raises an exception, raise the exception that `mapped` returns for it. No other function converts
    exceptions of the SDK.
    """
    try:
        # The time limit of the SDK applies to each read of the connection, so a server that sends keep-alives never
        # reaches it.
        async with asyncio.timeout(timeout_s):
            return await work
    except Exception as error:
        # `from None`, because the SDK's exception contains the request and therefore the key.
        raise mapped(error) from None


def without_key(failure: F, key: str) -> F:
    # A service can repeat the key in its error message.
    failure.args = tuple(str(arg).replace(key, "[key]") if key else arg for arg in failure.args)
    if isinstance(failure, CallFailed):
        failure.reason = failure.args[0]
    return failure


def host_of(base_url: str, name: str) -> str:
    """Return the host and the port of a URL, for display.

    Raises `UsageError` if the URL is invalid or contains a login.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise UsageError(f"{name} must be https://host[:port][/path], without user or password")
    return parts.netloc


def sendable(text: str) -> str:
    """Return the text in a form that UTF-8 can encode.

    Pairs of surrogates are joined to one character, and each lone surrogate is replaced by `?`.
    """
    if text.isascii():
        return text
    # A pair of surrogates is one character in UTF-16. JSON that spells a character as two escapes can contain such a
    # pair.
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return paired.encode("utf-8", "replace").decode("utf-8")


RETRIED_STATUSES = frozenset({408, 409, 429, 499})
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
"""Exceptions that are raised before there is a connection. They mean that the request was not sent."""
MAX_MESSAGE = 200
TOO_LONG = (
    "prompt is too long",
    "context window",
    "context limit",
    "context length",
    "context size",
    "context_length_exceeded",
    "exceed_context_size",
    "exceeds the maximum number of tokens",
    "string_above_max_length",
)
"""Phrases by which a response with status 400 shows that the prompt exceeds the context window. Few services have an
error code for this problem."""
UNPAID = ("insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active")
WRONG_KEY = ("invalid_api_key", "api_key_invalid", "api key not valid")
NO_MODEL = ("model_not_found", "is not a valid model id")
FLAGGED = ("flagged", "requires moderation")


class PromptTooLong(CallFailed):
    """Raised if the prompt exceeds the model's context window. Retrying the call cannot help."""

    cause = "answer"


class AnswerNotRead(CallFailed):
    """Raised if the answer is too large to be read.

    The call is not retried, because another answer would be as large.
    """


class CallTarget(Frozen):
    """Host, model and provider of a call, as they are named in error messages."""

    provider: Provider
    model: str
    """Name of the model as the provider spells it."""
    host: str


class ErrorResponse(Frozen):
    """Those parts of a service's error response that evalscribe uses."""

    status: int
    words: str = ""
    """The error message of the service, shortened to one line. It is empty if the service returned HTML."""
    code: str = ""
    """The error types and error codes in the response, on one line."""
    after: float | None = None
    """Number of seconds that the service asks the caller to wait; None if the response contains no such number."""

    @property
    def message_suffix(self) -> str:
        return f": {self.words}" if self.words else ""

    def has(self, *signs: str) -> bool:
        text = f"{self.words} {self.code}".lower()
        return any(sign in text for sign in signs)


def map_response(refusal: ErrorResponse, target: CallTarget) -> CallFailed | EvalscribeError:
    """Return the exception that is raised for an error response.

    The exception is marked as free if the service did no work.
    """
    details = f"({refusal.status}{refusal.message_suffix})"
    # Checked first, because services report such errors with several statuses. OpenAI answers 429 if the quota is used
    # up, and waiting does not help then.
    final_error = _error_for_all_calls(refusal, target, details)
    if final_error is not None:
        return final_error
    if refusal.status == 413 or (refusal.status in (400, 422, 500) and refusal.has(*TOO_LONG)):
        return PromptTooLong(f"the prompt is too long for {target.host} {details}", free=True)
    if refusal.status in RETRIED_STATUSES or refusal.status >= 500:
        limited = refusal.status == 429
        name = "is overloaded" if refusal.status == 529 else "limits the rate" if limited else "failed"
        return TransientFailure(f"{target.host} {name} {details}", free=True, after=refusal.after, limited=limited)
    # An error in the middle of a stream has status 200. The call is not free, because the service had begun to work.
    if 200 <= refusal.status < 300:
        return CallFailed(f"{target.host} broke off its answer {details}")
    return CallFailed(f"{target.host} rejected the request {details}", free=True, cause="answer")


def _error_for_all_calls(refusal: ErrorResponse, target: CallTarget, details: str) -> EvalscribeError | None:
    key = target.provider.key_name
    if refusal.status == 402 or refusal.has(*UNPAID):
        return AccessError(f"{target.host} requires payment {details}. See the account's billing.")
    if refusal.status == 401 or refusal.has(*WRONG_KEY):
        return AccessError(f"{target.host} refused the key {details}. Check {key}.")
    # Checked before 403, because a service can answer 403 with the code `model_not_found`.
    if refusal.status == 404 or refusal.has(*NO_MODEL):
        return UsageError(
            f"{target.host} has no model {target.model} {details}. Name another model, as PROVIDER/MODEL."
        )
    # OpenRouter also answers 403 if the content of one prompt was flagged. Other calls can still succeed.
    if refusal.status == 403 and not refusal.has(*FLAGGED):
        return AccessError(f"{target.host} denied access with this key {details}. Check {key}.")
    return None


def map_connection_error(error: Exception, target: CallTarget, *, late: bool) -> TransientFailure:
    """Return the failure for an error of the connection. `late` is True if the call timed out."""
    host = target.host
    if isinstance(error.__cause__, NEVER_SENT):
        ends_all = UnavailableError(f"{host} cannot be reached. Check the network and {target.provider.url_name}.")
        return TransientFailure(f"{host} cannot be reached", free=True, ends_all=ends_all)
    if late:
        return TransientFailure(f"{host} did not answer in time")
    return TransientFailure(f"{host} closed the connection without an answer")


def map_size_error(error: Exception, target: CallTarget) -> AnswerNotRead | None:
    """Return the failure for an `AnswerTooLarge` error, even if an SDK wrapped this error.

    Returns None for any other error.
    """
    cause = error if isinstance(error, AnswerTooLarge) else error.__cause__
    return (
        AnswerNotRead(f"{target.host} sent {cause}: too large to read") if isinstance(cause, AnswerTooLarge) else None
    )


def unreadable_answer(error: Exception, target: CallTarget) -> CallFailed:
    return CallFailed(f"{target.host} sent an answer that cannot be read ({type(error).__name__})")


def one_short_line(words: object) -> str:
    return " ".join(words.split())[:MAX_MESSAGE] if isinstance(words, str) else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the number of seconds to wait according to the header `retry-after`.

    Returns None if the header is missing or invalid.
    """
    # The header contains seconds or a date.
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    # A date with the zone `-0000` is parsed as a time without a zone, which cannot be compared with the current time.
    return max(0.0, (moment - datetime.now(UTC)).total_seconds()) if moment.tzinfo else None


# Without this limit, a server that sends an event just before each time limit could keep a call open forever.
MAX_STREAM_FACTOR = 10
"""Time limit of a whole stream, as a multiple of the time limit of one event."""


class StreamedBody(Protocol):
    """A response body that is assembled from the events of a stream."""

    is_complete: bool
    """True once the event that ends the answer has arrived."""

    def take(self, event: dict[str, Any]) -> str:
        """Process one event and return the text in it. Can raise any exception if the event is malformed."""


class TextForwarder:
    """Forwards the parts of a streamed text.

    Lone surrogates are not forwarded, because they cannot be stored or sent back.
    """

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._forwarded: list[str] = []
        self._half = ""
        """First half of a surrogate pair whose second half has not arrived yet."""

    def forward(self, piece: str) -> None:
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        self._send(sendable(text.removesuffix(self._half)))

    def end(self, text: str) -> None:
        """Forward the part of the answer that has not been forwarded yet. `text` is the whole answer.

        Raises `CallFailed` if the text forwarded so far is not the beginning of `text`.
        """
        forwarded = "".join(self._forwarded)
        if not text.startswith(forwarded):
            raise CallFailed("the streamed parts of an answer do not match its whole text")
        self._send(text[len(forwarded) :])

    def _send(self, text: str) -> None:
        if text:
            self._forwarded.append(text)
            self._on_text(text)


async def stream_text(
    opened: "Awaitable[anthropic.AsyncStream[Any] | openai.AsyncStream[Any]]",
    body: StreamedBody,
    host: str,
    timeout_s: float,
    mapped: Callable[[Exception], Exception],
) -> AsyncGenerator[str]:
    """Yield the text in each event until the stream ends. Each event must arrive within `timeout_s`.

    If the stream fails before the first text, the exception that `mapped` returns is raised. If the stream fails
    later, `CallFailed` is raised.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + MAX_STREAM_FACTOR * timeout_s
    started = has_text = False

    def failure(error: Exception) -> Exception:
        return _after_work(
            error if isinstance(error, CallFailed) else mapped(error), started=started, has_text=has_text
        )

    stream = await attempt(opened, timeout_s, mapped)
    try:
        # Every event has a time limit of its own, because a long answer takes longer than the limit of an answer that
        # comes as a whole.
        events = _bodies(stream)
        while (
            piece := await attempt(_next(events, body), min(timeout_s, deadline - loop.time()), failure)
        ) is not None:
            started, has_text = True, has_text or bool(piece)
            yield piece
        # If the connection ends in the middle of an answer, the SDKs end the stream without an error.
        if not body.is_complete:
            raise failure(TransientFailure(f"{host} broke off its answer"))
    finally:
        await stream.close()


async def _bodies(stream: "anthropic.AsyncStream[Any] | openai.AsyncStream[Any]") -> AsyncIterator[dict[str, Any]]:
    """Yield the events of a stream as plain objects."""
    # A server that does not stream sends the whole body instead, which becomes the only event.
    if "json" in stream.response.headers.get("content-type", ""):
        yield json.loads(await stream.response.aread())
        return
    count = 0
    async for event in stream:
        count += 1
        yield event.to_dict(mode="json", warnings=False)
    # A response that is not an event stream, such as HTML, looks like a stream without events to the SDKs.
    if not count:
        raise ValueError("no event")


async def _next(events: AsyncIterator[dict[str, Any]], body: StreamedBody) -> str | None:
    event = await anext(events, None)
    return None if event is None else body.take(event)


def _after_work(failure: Exception, *, started: bool, has_text: bool) -> Exception:
    """Adjust a failure that occurred after the service had begun to answer. Such a call is not free."""
    # Forwarded text cannot be taken back, so the call is not retried. An error that affects all calls becomes a
    # `CallFailed`, because only the usage of a `CallFailed` is counted. The next call raises the same error again.
    if has_text or (started and not isinstance(failure, CallFailed)):
        usage = failure.usage if isinstance(failure, CallFailed) else None
        return CallFailed(f"the answer broke off: {failure}", usage)
    if isinstance(failure, CallFailed):
        failure.free = False
    return failure
