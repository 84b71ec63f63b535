"""A server on loopback with OpenAI's Chat Completions API, scripted in the same way as `messages_server`.

with ChatServer() as server:                       # submits a valid verdict at once, whatever it is asked
    OpenAIModel("gpt-x", "key", OPENAI, server.url)
with ChatServer([failure(429, retry_after="1"), says("Done.")]) as server: ...
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from support.messages_server import VERDICT
from support.scripted_server import Answer, Call, Script, ScriptedServer, page

__all__ = [
    "DONE",
    "USAGE",
    "Answer",
    "Call",
    "ChatServer",
    "Script",
    "chunk",
    "chunks",
    "completion",
    "failure",
    "page",
    "says",
    "submit",
    "use",
]

USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}


def completion(said: dict[str, Any] | None, stop: str | None = "stop", **other: Any) -> Answer:
    """Return a complete answer. `other` adds or replaces fields of the body; `usage=None` omits the usage."""
    choice = {"index": 0, "message": {"role": "assistant", **(said or {})}, "finish_reason": stop}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "test",
        "choices": [choice],
        "usage": USAGE,
        **other,
    }
    return Answer(body=json.dumps({name: value for name, value in body.items() if value is not None}).encode())


def says(text: str, stop: str = "stop", **other: Any) -> Answer:
    return completion({"content": text}, stop, **other)


def use(*tools: tuple[str, dict[str, Any]], stop: str = "tool_calls") -> Answer:
    """Return an answer with tool calls, such as `use(("read_lines", {...}))`."""
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": tool, "arguments": json.dumps(fields)}}
        for n, (tool, fields) in enumerate(tools)
    ]
    return completion({"content": None, "tool_calls": calls}, stop)


def submit(**fields: Any) -> Answer:
    """Return an answer that submits a verdict. It is valid unless `fields` make it invalid."""
    return use(("submit", {**VERDICT, **fields}))


def failure(status: int, code: str | None = None, text: str = "no", **headers: str) -> Answer:
    body = {"error": {"message": text, "type": "api_error", "code": code, "param": None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps(body).encode(), {"content-type": "application/json", **named})


DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any] | None = None, stop: str | None = None, **other: Any) -> bytes:
    """Return one event of a stream. Without `delta`, the event has no choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": stop}]
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "test", "choices": choices}
    return f"data: {json.dumps({**body, **other})}\n\n".encode()


def chunks(body: dict[str, Any], every: int = 7) -> Iterator[bytes]:
    """Yield a complete answer as a stream. Text and arguments are sent in pieces of `every` characters."""
    (choice,) = body["choices"]
    said = dict(choice["message"])
    yield b": keep-alive\n\n"
    yield chunk({"role": "assistant", "content": said.get("content") and ""})
    for name in ("content", "refusal"):
        text = said.pop(name, None) or ""
        yield from (chunk({name: text[at : at + every]}) for at in range(0, len(text), every))
    for number, call in enumerate(said.pop("tool_calls", None) or ()):
        yield from _call(number, call, every)
    said.pop("role")
    yield chunk(said, choice["finish_reason"])
    if body.get("usage"):
        yield chunk(usage=body["usage"])
    yield DONE


def _call(number: int, call: dict[str, Any], every: int) -> Iterator[bytes]:
    arguments = call["function"]["arguments"] or ""
    begun = {**call, "index": number, "function": {**call["function"], "arguments": ""}}
    yield chunk({"tool_calls": [begun]})
    for at in range(0, len(arguments), every):
        yield chunk({"tool_calls": [{"index": number, "function": {"arguments": arguments[at : at + every]}}]})


class ChatServer(ScriptedServer):
    def __init__(self, script: Script | None = None, latency_s: float = 0.0) -> None:
        super().__init__(submit() if script is None else script, latency_s)

    def streamed(self, answer: Answer) -> Answer:
        try:
            return replace(answer, pieces=tuple(chunks(json.loads(answer.body))))
        except (ValueError, TypeError, KeyError, AttributeError):
            return answer
