"""An answer that is heard while it is written.

A stream's events build the body that would have come whole, so that what is read from it is the same both ways.
Until its first text was heard a failure is what it would be without a stream; from then on nothing can be tried again.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from evalscribe.chat import CallFailed
from evalscribe.llm.attempt import attempt, sendable
from evalscribe.llm.transient import Transient
from evalscribe.ports import OnText

LONGEST = 10
"""Times the bound of one event that a whole stream may take."""


class Stream(Protocol):
    """What the streams of both SDKs share; keep-alives are none of their events."""

    @property
    def response(self) -> Any: ...

    def __aiter__(self) -> AsyncIterator[Any]: ...
    async def close(self) -> None: ...


class Written(Protocol):
    """A body as its events build it."""

    whole: bool
    """Whether the event came that says how the answer ended."""

    def take(self, event: dict[str, Any]) -> str:
        """The text that came with the next event. Raises any exception for what is no event."""


class Hearing:
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


async def pieces(
    opened: Awaitable[Stream], written: Written, host: str, timeout_s: float, mapped: Callable[[Exception], Exception]
) -> AsyncGenerator[str]:
    """The text that comes with each event, to the end of the stream. Each event has `timeout_s` to come.

    Raises what `mapped` makes of a failure, and `CallFailed` instead once there was text.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LONGEST * timeout_s
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
            raise failure(Transient(f"{host} broke off its answer"))
    finally:
        await stream.close()


async def _bodies(stream: Stream) -> AsyncIterator[dict[str, Any]]:
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


async def _next(events: AsyncIterator[dict[str, Any]], written: Written) -> str | None:
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
