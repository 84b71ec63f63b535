"""A model that returns prepared replies."""

import re
from collections.abc import Callable, Iterable

from evalscribe.model.chat import Reply, Request, StopReason, ToolCall, Usage
from evalscribe.model.protocols import OnText

Step = Reply | Exception | Callable[[Request], Reply]
PIECES = re.compile(r"\s*\S+|\s+")
"""Pieces in which a text is streamed: each word with the space before it."""


class ScriptedModel:
    """A `Model` that replies to the n-th call with the n-th step of its script.

    A step that is an exception is raised.
    """

    def __init__(self, script: Iterable[Step], name: str = "scripted/model", context_tokens: int = 200_000) -> None:
        self.id = name
        self.context_tokens = context_tokens
        self.requests: list[Request] = []
        """Received requests, in order."""
        self.forgotten: list[Request] = []
        self._script = iter(script)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        self.requests.append(request)
        step = next(self._script, None)
        if step is None:
            raise AssertionError(f"the script ends before call {len(self.requests)}")
        if isinstance(step, Exception):
            raise step
        reply = step if isinstance(step, Reply) else step(request)
        if on_text:
            for piece in PIECES.findall(reply.text):
                on_text(piece)
        return reply

    def forget(self, request: Request) -> None:
        self.forgotten.append(request)

    async def close(self) -> None:
        return None


def text_reply(text: str = "", stop: StopReason = "end", usage: Usage | None = None) -> Reply:
    """Return a reply with a text and without tool calls."""
    return Reply(text=text, stop=stop, usage=usage or Usage(calls=1))


def tool_reply(*named: tuple[str, dict[str, object]], usage: Usage | None = None) -> Reply:
    """Return a reply that calls tools, such as `tool_reply(("read_lines", {...}), ("submit", {...}))`."""
    tool_calls = tuple(ToolCall(id=f"call_{n}", name=name, input=fields) for n, (name, fields) in enumerate(named, 1))
    raw = [{"type": "tool_use", **call.model_dump()} for call in tool_calls]
    return Reply(text="", tool_calls=tool_calls, stop="tool_use", usage=usage or Usage(calls=1), raw=raw)
