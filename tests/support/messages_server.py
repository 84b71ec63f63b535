"""A server on loopback with Anthropic's Messages API. It answers each call as a test scripts it, and records the calls.

with MessagesServer() as server:                   # submits a valid verdict at once, whatever it is asked
    AnthropicModel("claude-x", "key", server.url)
with MessagesServer([overloaded(), submit()]) as server: ...       # the last step is repeated for ever
with MessagesServer(lambda call: submit(confidence=0.3)) as server: ...
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from support.scripted_server import Answer, Call, Script, ScriptedServer, page

__all__ = [
    "FAILED_ATTEMPTS",
    "USAGE",
    "VERDICT",
    "Answer",
    "Call",
    "MessagesServer",
    "Script",
    "event",
    "events",
    "failure",
    "message",
    "page",
    "says",
    "submit",
    "use",
]

GROWN = {
    "text": ("text", "text_delta", "text"),
    "thinking": ("thinking", "thinking_delta", "thinking"),
    "tool_use": ("input", "input_json_delta", "partial_json"),
}
"""For each type of block: the field that is sent in pieces, the type of the delta, and the delta's field."""
USAGE = {"input_tokens": 1000, "output_tokens": 100}
VERDICT: dict[str, Any] = {
    "classification": "MODEL_FAULT",
    "cause": "wrong-result",
    "cause_kind": "model",
    "confidence": 0.9,
    "error": "AssertionError: 1 != 2",
    "why": "returns 1 where the task asks for 2",
    "reasoning": "The task asks for 2. The output returns 1.",
    "citations": [],
    "fix": "",
    "would_pass": False,
}


def message(*content: dict[str, Any], stop: str | None = "end_turn", usage: dict[str, Any] | None = None) -> Answer:
    """Return a complete answer of the model."""
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": USAGE if usage is None else usage,
    }
    return Answer(body=json.dumps(body).encode())


def says(text: str, stop: str = "end_turn") -> Answer:
    return message({"type": "text", "text": text}, stop=stop)


def use(*tools: tuple[str, dict[str, Any]], stop: str = "tool_use") -> Answer:
    """Return an answer with tool calls, such as `use(("read_lines", {...}))`."""
    blocks = [{"type": "tool_use", "id": f"toolu_{n}", "name": t, "input": i} for n, (t, i) in enumerate(tools)]
    return message(*blocks, stop=stop)


def submit(**fields: Any) -> Answer:
    """Return an answer that submits a verdict. It is valid unless `fields` make it invalid."""
    return use(("submit", {**VERDICT, **fields}))


def failure(status: int, kind: str = "api_error", text: str = "no", **headers: str) -> Answer:
    body = {"type": "error", "error": {"type": kind, "message": text}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps(body).encode(), {"content-type": "application/json", **named})


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def events(body: dict[str, Any], every: int = 7) -> Iterator[bytes]:
    """Yield a complete answer as a stream. Text and the input of tools are sent in pieces of `every` characters."""
    usage = body["usage"]
    begun = {**body, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1} if usage else {}}
    yield event("message_start", message=begun)
    yield event("ping")
    for index, block in enumerate(body["content"]):
        yield from _block(index, block, every)
    ended = {"stop_reason": body["stop_reason"], "stop_sequence": body["stop_sequence"]}
    yield event("message_delta", delta=ended, usage={"output_tokens": usage.get("output_tokens")})
    yield event("message_stop")


def _block(index: int, block: dict[str, Any], every: int) -> Iterator[bytes]:
    field, delta, key = GROWN[block["type"]]
    whole = json.dumps(block[field]) if field == "input" else block[field]
    emptied = {**block, field: {} if field == "input" else "", **({"signature": ""} if "signature" in block else {})}
    yield event("content_block_start", index=index, content_block=emptied)
    for start in range(0, len(whole), every):
        yield event("content_block_delta", index=index, delta={"type": delta, key: whole[start : start + every]})
    if "signature" in block:
        signed = {"type": "signature_delta", "signature": block["signature"]}
        yield event("content_block_delta", index=index, delta=signed)
    yield event("content_block_stop", index=index)


class MessagesServer(ScriptedServer):
    def __init__(self, script: Script | None = None, latency_s: float = 0.0) -> None:
        super().__init__(submit() if script is None else script, latency_s)

    def streamed(self, answer: Answer) -> Answer:
        try:
            return replace(answer, pieces=tuple(events(json.loads(answer.body))))
        except (ValueError, TypeError, KeyError, AttributeError):
            return answer


FAILED_ATTEMPTS = {
    "provider": (failure(529, "overloaded_error", "busy", retry_after="900"), (), 69),
    "key": (failure(401, "authentication_error", "no"), (), 77),
    "budget": (submit(), ("--budget", "0.0001"), 64),
    "no verdict": (says("I cannot say."), (), 65),
}
"""Answers that give no verdict, each with the options and the exit code of a command that receives only this answer."""
