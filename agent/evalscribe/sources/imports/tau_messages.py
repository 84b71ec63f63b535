"""Calls of tools that a trajectory has only as text, or as older models made them: as the calls that they are."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from pydantic import JsonValue

RESPOND = "respond"
"""The action by which a model that acts in text speaks to the user."""
_ACTION = re.compile(r"\bAction:\s*(\{.*\})\s*\Z", re.DOTALL)
_ANSWER = "API output: "
_Message = Mapping[str, JsonValue]


def with_calls(messages: list[JsonValue]) -> list[JsonValue]:
    """The same messages, as many; where some call tools already, nothing is looked for in texts."""
    given = [message if isinstance(message, dict) else {} for message in messages]
    if any(message.get("tool_calls") for message in given):
        return messages
    return list(_read(messages))


def _read(messages: list[JsonValue]) -> Iterator[JsonValue]:
    waiting: str | None = None
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            yield message
            continue
        answered, waiting = waiting, None
        call = _call(message)
        if call is not None:
            waiting = f"call-{number}"
            kept = {key: value for key, value in message.items() if key != "function_call"}
            yield {**kept, "tool_calls": [{"id": waiting, "type": "function", **call}]}
        elif answered and _is_answer(message):
            yield {**message, "role": "tool", "tool_call_id": answered}
        else:
            yield message


def _call(message: _Message) -> dict[str, JsonValue] | None:
    if message.get("role") != "assistant":
        return None
    if isinstance(old := message.get("function_call"), dict) and isinstance(old.get("name"), str):
        return {"function": old}
    content = message.get("content")
    found = _ACTION.search(content) if isinstance(content, str) else None
    if found is None:
        return None
    action: object = None
    with suppress(ValueError, RecursionError):
        action = json.loads(found[1])
    if not isinstance(action, dict) or not isinstance(action.get("name"), str) or action["name"] == RESPOND:
        return None
    arguments = action.get("arguments", {})
    return {"function": {"name": action["name"], "arguments": arguments if isinstance(arguments, dict) else {}}}


def _is_answer(message: _Message) -> bool:
    content = message.get("content")
    return message.get("role") == "function" or (
        message.get("role") == "user" and isinstance(content, str) and content.startswith(_ANSWER)
    )
