"""One attempt at an answer: time limit, streaming, and what a provider's failure means."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import httpx2

from evalscribe.errors import AccessError, EvalscribeError, UnavailableError, UsageError
from evalscribe.ids import Frozen
from evalscribe.model.chat import CallFailed, TransientFailure
from evalscribe.model.protocols import OnText
from evalscribe.settings.access import Provider
from evalscribe.settings.http import AnswerTooLarge

T = TypeVar("T")
F = TypeVar("F", bound=Exception)
CONNECT_S = 10.0


async def attempt(work: Awaitable[T], timeout_s: float, mapped: Callable[[Exception], Exception]) -> T:
    """The one place where an SDK's exception becomes ours: raises what `mapped` makes of it."""
    try:
        async with asyncio.timeout(timeout_s):
            return await work
    except Exception as error:
        # `from None`: the SDK's exception holds the request, and with it the key.
        raise mapped(error) from None


def without_key(failure: F, key: str) -> F:
    failure.args = tuple(str(arg).replace(key, "[key]") if key else arg for arg in failure.args)
    if isinstance(failure, CallFailed):
        failure.reason = failure.args[0]
    return failure


def host_of(base_url: str, name: str) -> str:
    """Host and port as they may be shown. Raises `UsageError` where the URL is none, or holds a password."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise UsageError(f"{name} must be https://host[:port][/path], without user or password")
    return parts.netloc


def sendable(text: str) -> str:
    """Without lone surrogates, which no JSON body in UTF-8 can hold; two that make a character are that character."""
    if text.isascii():
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return paired.encode("utf-8", "replace").decode("utf-8")


RETRIED_STATUSES = frozenset({408, 409, 429, 499})
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
"""Causes that leave no connection to send anything over."""
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
"""How services word a 400 for a prompt beyond the context; few have a code of their own for it."""
UNPAID = ("insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active")
WRONG_KEY = ("invalid_api_key", "api_key_invalid", "api key not valid")
NO_MODEL = ("model_not_found", "is not a valid model id")
FLAGGED = ("flagged", "requires moderation")


class PromptTooLong(CallFailed):
    """The prompt does not fit the model, and never will."""

    cause = "answer"


class AnswerNotRead(CallFailed):
    """The answer is too large to read; asking again would return just as much."""


class CallTarget(Frozen):
    """Who was asked for what."""

    provider: Provider
    model: str
    """The provider's own name of it."""
    host: str


class ErrorResponse(Frozen):
    """An error that came as an answer."""

    status: int
    words: str = ""
    """The service's own, in one short line; nothing where it sent a page instead."""
    code: str = ""
    """Kinds and codes that the service gave beside its words, in one line."""
    after: float | None = None
    """Seconds that it asks to wait."""

    @property
    def said(self) -> str:
        return f": {self.words}" if self.words else ""

    def has(self, *signs: str) -> bool:
        text = f"{self.words} {self.code}".lower()
        return any(sign in text for sign in signs)


def map_response(refusal: ErrorResponse, asked: CallTarget) -> CallFailed | EvalscribeError:
    """What an error that came as an answer means. Where it came before any work was done, it is free."""
    told = f"({refusal.status}{refusal.said})"
    ended = _ends_all(refusal, asked, told)
    if ended is not None:
        return ended
    if refusal.status == 413 or (refusal.status in (400, 422, 500) and refusal.has(*TOO_LONG)):
        return PromptTooLong(f"the question is too long for {asked.host} {told}", free=True)
    if refusal.status in RETRIED_STATUSES or refusal.status >= 500:
        limited = refusal.status == 429
        name = "is overloaded" if refusal.status == 529 else "limits the rate" if limited else "failed"
        return TransientFailure(f"{asked.host} {name} {told}", free=True, after=refusal.after, limited=limited)
    if 200 <= refusal.status < 300:
        return CallFailed(f"{asked.host} broke off its answer {told}")
    return CallFailed(f"{asked.host} turned the question away {told}", free=True, cause="answer")


def _ends_all(refusal: ErrorResponse, asked: CallTarget, told: str) -> EvalscribeError | None:
    key = asked.provider.key_name
    if refusal.status == 402 or refusal.has(*UNPAID):
        return AccessError(f"{asked.host} wants to be paid {told}. See the account's billing.")
    if refusal.status == 401 or refusal.has(*WRONG_KEY):
        return AccessError(f"{asked.host} refused the key {told}. Check {key}.")
    if refusal.status == 404 or refusal.has(*NO_MODEL):
        return UsageError(f"{asked.host} knows no model {asked.model} {told}. Name another, as PROVIDER/MODEL.")
    if refusal.status == 403 and not refusal.has(*FLAGGED):
        return AccessError(f"{asked.host} does not allow this key to do that {told}. Check {key}.")
    return None


def map_connection_error(error: Exception, asked: CallTarget, *, late: bool) -> TransientFailure:
    """`late`: nothing came in time."""
    host = asked.host
    if isinstance(error.__cause__, NEVER_SENT):
        ends_all = UnavailableError(f"{host} cannot be reached. Check the network and {asked.provider.url_name}.")
        return TransientFailure(f"{host} cannot be reached", free=True, ends_all=ends_all)
    if late:
        return TransientFailure(f"{host} did not answer in time")
    return TransientFailure(f"{host} closed the connection without an answer")


def map_size_error(error: Exception, asked: CallTarget) -> AnswerNotRead | None:
    """Map an error caused by the size of the answer, possibly wrapped by an SDK; None for any other error."""
    cause = error if isinstance(error, AnswerTooLarge) else error.__cause__
    return AnswerNotRead(f"{asked.host} sent {cause}, which is not read") if isinstance(cause, AnswerTooLarge) else None


def unreadable_answer(error: Exception, asked: CallTarget) -> CallFailed:
    return CallFailed(f"{asked.host} sent an answer that cannot be read ({type(error).__name__})")


def one_short_line(words: object) -> str:
    return " ".join(words.split())[:MAX_MESSAGE] if isinstance(words, str) else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after` in seconds or as a date; None where there is none that can be read."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds()) if moment.tzinfo else None


MAX_STREAM_FACTOR = 10
"""Times the bound of one event that a whole stream may take."""


class EventStream(Protocol):
    """What the streams of both SDKs share; keep-alives are none of their events."""

    @property
    def response(self) -> Any: ...

    def __aiter__(self) -> AsyncIterator[Any]: ...
    async def close(self) -> None: ...


class StreamedBody(Protocol):
    """A body as its events build it."""

    whole: bool
    """Whether the event came that says how the answer ended."""

    def take(self, event: dict[str, Any]) -> str:
        """The text that came with the next event. Raises any exception for what is no event."""


class TextForwarder:
    """Tells pieces of a text as text that can be kept and sent back."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._heard: list[str] = []
        self._half = ""
        """A character's first half, which the end of a piece cut off from its second."""

    def say(self, piece: str) -> None:
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        self._tell(sendable(text.removesuffix(self._half)))

    def end(self, text: str) -> None:
        """Tell what is left of the whole text. Raises `CallFailed` where something else was heard."""
        heard = "".join(self._heard)
        if not text.startswith(heard):
            raise CallFailed("the pieces of an answer came in no order")
        self._tell(text[len(heard) :])

    def _tell(self, text: str) -> None:
        if text:
            self._heard.append(text)
            self._on_text(text)


async def stream_text(
    opened: Awaitable[EventStream],
    written: StreamedBody,
    host: str,
    timeout_s: float,
    mapped: Callable[[Exception], Exception],
) -> AsyncGenerator[str]:
    """The text that comes with each event, to the end of the stream. Each event has `timeout_s` to come.

    Raises what `mapped` makes of a failure, and `CallFailed` instead once there was text.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + MAX_STREAM_FACTOR * timeout_s
    begun = heard = False

    def failure(error: Exception) -> Exception:
        return _after_work(error if isinstance(error, CallFailed) else mapped(error), begun=begun, heard=heard)

    stream = await attempt(opened, timeout_s, mapped)
    try:
        events = _bodies(stream)
        while (
            piece := await attempt(_next(events, written), min(timeout_s, deadline - loop.time()), failure)
        ) is not None:
            begun, heard = True, heard or bool(piece)
            yield piece
        if not written.whole:
            raise failure(TransientFailure(f"{host} broke off its answer"))
    finally:
        await stream.close()


async def _bodies(stream: EventStream) -> AsyncIterator[dict[str, Any]]:
    """The stream's events as plain objects, or the one body of a server that does not stream."""
    if "json" in stream.response.headers.get("content-type", ""):
        yield json.loads(await stream.response.aread())
        return
    count = 0
    async for event in stream:
        count += 1
        yield event.to_dict(mode="json", warnings=False)
    if not count:
        raise ValueError("no event")


async def _next(events: AsyncIterator[dict[str, Any]], written: StreamedBody) -> str | None:
    event = await anext(events, None)
    return None if event is None else written.take(event)


def _after_work(failure: Exception, *, begun: bool, heard: bool) -> Exception:
    """Of a service that had begun to answer: it is not free, and not repeated once somebody has heard of it.

    What ends all calls is told by the next one: here something may have been consumed, which no such error counts.
    """
    if heard or (begun and not isinstance(failure, CallFailed)):
        usage = failure.usage if isinstance(failure, CallFailed) else None
        return CallFailed(f"the answer broke off: {failure}", usage)
    if isinstance(failure, CallFailed):
        failure.free = False
    return failure
