"""Help to create HTTP clients that take settings from the environment. Limit the size of servers' answers."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

import httpx2

from evalscribe.errors import UsageError

CONNECTION_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@contextmanager
def explain_connection_errors() -> Iterator[None]:
    """Convert errors that occur while an HTTP client is created.

    Raises `UsageError` if environment variables prevent the client from being created.
    """
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        variables = [name for name in CONNECTION_NAMES if os.environ.get(name) or os.environ.get(name.lower())]
        if not variables:
            raise
        raise UsageError(
            f"no connection can be made with {', '.join(variables)} as set in the environment: {error}"
        ) from None


MIB = 1024 * 1024
LARGEST_ERROR = MIB // 4
"""Maximum bytes of the body of an error response. A longer body is truncated instead of being refused, because the
status already says what failed."""
EVENT_LINES = 1000
"""Maximum number of lines of one server-sent event. The number is limited because the Anthropic SDK copies all earlier
lines of the event for each new line."""
EVENTS = "text/event-stream"


class AnswerTooLarge(httpx2.DecodingError):
    """Raised if an answer is larger than allowed. The message does not name the server."""


@dataclass(frozen=True)
class AnswerLimits:
    """Limits on the size of an answer. The size is measured in bytes after decompression."""

    body: int
    """Maximum bytes of an answer that is read as a whole. Also the maximum bytes of a single line or server-sent event.
    """
    lines: int = 0
    """Maximum bytes of an answer that is read line by line. If this is 0, server-sent events are read as a whole."""
    json_lines: bool = False
    """True to read answers of any content type line by line. Otherwise, only server-sent events are read like this."""


MODEL_ANSWER = AnswerLimits(body=8 * MIB, lines=32 * MIB)
"""Limits for a model's answer. An answer of 128,000 tokens in which every character is escaped is 3 MB. In a stream,
every few tokens need 150 to 500 bytes."""
BATCH_RESULTS = AnswerLimits(body=8 * MIB, lines=1024 * MIB, json_lines=True)
"""Limits for the results of a batch, which contain up to 1,000 answers, one per line."""


def model_limits(request: httpx2.Request) -> AnswerLimits:
    """Return the limits for the answer to a request.

    The limits depend on the path of the request, because batch results have no content type of their own.
    """
    return BATCH_RESULTS if request.url.path.endswith("/results") else MODEL_ANSWER


def limit_answers(
    limits: AnswerLimits | Callable[[httpx2.Request], AnswerLimits],
) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return a response hook for `httpx2.AsyncClient`.

    With this hook, reading an answer that is too large raises `AnswerTooLarge`.

    Args:
        limits: The limits of every answer, or a function that returns the limits for a request.
    """

    async def limit(response: httpx2.Response) -> None:
        chosen = limits if isinstance(limits, AnswerLimits) else limits(response.request)
        response.stream = _Limited(response, chosen)
        # `_Limited` yields decompressed bytes, so the values of these two headers would be wrong.
        for name in ("content-encoding", "content-length"):
            response.headers.pop(name, None)

    return limit


class _Limited(httpx2.AsyncByteStream):
    """The decompressed body of a response.

    Reading more than the limits allow raises `AnswerTooLarge`. A long body of an error response is truncated instead.
    """

    def __init__(self, response: httpx2.Response, limits: AnswerLimits) -> None:
        self._is_error = response.status_code >= 400
        self._events = limits.lines > 0 and EVENTS in response.headers.get("content-type", "").lower()
        self._by_line = (self._events or limits.json_lines) and not self._is_error
        self._limits = limits
        self._most = LARGEST_ERROR if self._is_error else limits.lines if self._by_line else limits.body
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        # `_Counted` also counts compressed bytes that decompress to nothing, such as bytes after the end of a gzip
        # stream.
        raw = _Counted(response.stream, self._most)
        self._inner = httpx2.Response(
            response.status_code, headers=response.headers, stream=raw, request=response.request
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._lines() if self._by_line else self._parts()) as parts:
            async for part in parts:
                yield part

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _parts(self) -> AsyncGenerator[bytes]:
        size = 0
        try:
            async with aclosing(self._inner.aiter_bytes()) as parts:
                async for part in parts:
                    size += len(part)
                    if size > self._most:
                        raise _too_large("an answer", self._most)
                    yield part
        # `AnswerTooLarge` is a `DecodingError`, so a long body of an error response just ends here.
        except httpx2.DecodingError:
            if not self._is_error:
                raise

    async def _lines(self) -> AsyncGenerator[bytes]:
        """Yield only whole lines.

        If a line were yielded in parts, the SDKs would copy its beginning again for each part.
        """
        pieces: list[bytes] = []
        size, event = 0, _Event(self._limits.body)
        async with aclosing(self._parts()) as parts:
            async for part in parts:
                end = part.rfind(b"\n") + 1
                if end:
                    lines = b"".join((*pieces, part[:end]))
                    if self._events:
                        event.add(lines)
                    yield lines
                    pieces, size, part = [], 0, part[end:]
                pieces.append(part)
                size += len(part)
                if size > self._limits.body:
                    raise _too_large("a line", self._limits.body)
        if size:
            yield b"".join(pieces)


class _Event:
    """Size of the current event, which consists of the lines since the last blank line."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines = self._size = 0

    def add(self, lines: bytes) -> None:
        """Add whole lines to the size of the event.

        Raises `AnswerTooLarge` if the event then has too many lines or bytes.
        """
        for line in lines.splitlines():
            if not line:
                self._lines = self._size = 0
                continue
            self._lines += 1
            self._size += len(line)
            if self._lines > EVENT_LINES:
                raise AnswerTooLarge(f"an event of more than {EVENT_LINES} lines")
            if self._size > self._most:
                raise _too_large("an event", self._most)


class _Counted(httpx2.AsyncByteStream):
    """The bytes of a response as sent over the network, before decompression.

    Raises `AnswerTooLarge` if too many bytes are read.
    """

    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > self._most:
                raise _too_large("an answer", self._most)
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


def _too_large(subject: str, most: int) -> AnswerTooLarge:
    return AnswerTooLarge(f"{subject} of more than {most / MIB:g} MiB")
