"""A server of OpenAI's chat completions on loopback, scripted as `messages_server` is.

with ChatServer() as server:                       # submits a valid verdict at once, whatever it is asked
    OpenAIModel("gpt-x", "key", OPENAI, server.url)
with ChatServer([failure(429, retry_after="1"), says("Done.")]) as server: ...
"""

import json
from typing import Any

from messages_server import VERDICT
from scripted_server import Answer, Call, Script, ScriptedServer, page

__all__ = ["USAGE", "Answer", "Call", "ChatServer", "Script", "completion", "failure", "page", "says", "submit", "use"]

USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}


def completion(said: dict[str, Any] | None, stop: str | None = "stop", **other: Any) -> Answer:
    """A whole answer; `usage=None` leaves the usage out, and `other` adds to the body or replaces in it."""
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
    """Calls of tools: `use(("read_lines", {...}))`."""
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": tool, "arguments": json.dumps(fields)}}
        for n, (tool, fields) in enumerate(tools)
    ]
    return completion({"content": None, "tool_calls": calls}, stop)


def submit(**fields: Any) -> Answer:
    """A verdict, valid but for the given fields."""
    return use(("submit", {**VERDICT, **fields}))


def failure(status: int, code: str | None = None, text: str = "no", **headers: str) -> Answer:
    body = {"error": {"message": text, "type": "api_error", "code": code, "param": None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps(body).encode(), {"content-type": "application/json", **named})


class ChatServer(ScriptedServer):
    def __init__(self, script: Script | None = None, latency_s: float = 0.0) -> None:
        super().__init__(submit() if script is None else script, latency_s)
