"""Agent runs as other tools write them, put into our shape: JSON in, JSON out, nothing lost."""

import json
from collections.abc import Mapping
from typing import Any

ROLES = ("system", "user", "assistant", "tool")
LONGEST_KEPT = 200
"""Characters of a string that is kept of a part which is no text: an image's data is not for reading."""
_REASONING = ("reasoning", "thinking", "redacted_thinking")
_Parts = tuple[list[str], list[str], list[dict[str, Any]], list[Any]]


def with_known_role(message: Any) -> Any:
    """A `developer` speaks as the system; any other unknown role is an error."""
    if not isinstance(message, dict):
        return message
    role = message.get("role")
    if role == "developer":
        return {**message, "role": "system", "spoken by": role}
    if role not in ROLES:
        told = f"unknown role {json.dumps(role, default=str)[:60]}" if "role" in message else "no role"
        raise ValueError(f"{told}; known are {', '.join(ROLES)} and developer")
    return message


def with_unknown_kept(value: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Unknown fields moved into `metadata`, nulls left out. A name that is taken there gets a longer one."""
    if value.keys() <= known and None not in value.values():
        return dict(value)
    given = {key: part for key, part in value.items() if part is not None}
    unknown = {key: part for key, part in given.items() if key not in known}
    metadata = given.get("metadata", {})
    if not unknown or not isinstance(metadata, dict):
        return given
    kept = {key if key not in metadata else f"{key} (field)": part for key, part in unknown.items()}
    return {**{key: part for key, part in given.items() if key in known}, "metadata": {**metadata, **kept}}


def agent_run(value: Mapping[str, Any]) -> dict[str, Any]:
    """Messages without a transcript are one; transcripts by name become a list."""
    given = dict(value)
    if "transcripts" not in given and "messages" in given:
        given["transcripts"] = [{"messages": given.pop("messages")}]
    transcripts = given.get("transcripts")
    if isinstance(transcripts, dict):
        given["transcripts"] = [_with_name(name, transcript) for name, transcript in transcripts.items()]
    return given


def _with_name(name: str, transcript: Any) -> Any:
    return {"name": name, **transcript} if isinstance(transcript, dict) else transcript


def tool_call(value: Mapping[str, Any]) -> dict[str, Any]:
    """Flat calls, and those whose `function` is an object with name and arguments, these even as a string of JSON."""
    given = dict(value)
    if isinstance(given.get("function"), dict):
        function = dict(given.pop("function"))
        given = {**given, "function": function.pop("name", None), **function}
    if given.get("type") == "function":
        del given["type"]
    if isinstance(given.get("arguments"), str):
        given["arguments"] = _arguments(given["arguments"])
    return given


def _arguments(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text or "{}")
    except (ValueError, RecursionError):
        read = text
    return read if isinstance(read, dict) else {"arguments": read}


def tool_result(value: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's message: its name under either name, its error as one text."""
    given = dict(value)
    if "function" not in given and isinstance(given.get("name"), str):
        given["function"] = given.pop("name")
    error = given.get("error")
    if isinstance(error, dict) and isinstance(error.get("message"), str) and error.keys() <= {"type", "message"}:
        given["error"] = f"{error['type']}: {error['message']}" if error.get("type") else error["message"]
    elif error is not None and not isinstance(error, str):
        given["error"] = json.dumps(error, ensure_ascii=False, default=str)
    return given


def joined(value: Mapping[str, Any], *, with_reasoning: bool) -> dict[str, Any]:
    """A message whose content is one text. Parts that are none become placeholders and are kept in `metadata`."""
    given = dict(value)
    if with_reasoning and isinstance(given.get("reasoning_content"), str):
        given.setdefault("reasoning", given.pop("reasoning_content"))
    if not isinstance(given.get("content"), list):
        return given
    texts, reasoning, calls, others = _parts(given["content"])
    given["content"] = "\n".join(texts if with_reasoning else [*reasoning, *texts])
    if with_reasoning and reasoning:
        given["reasoning"] = "\n".join([*filter(None, [given.get("reasoning")]), *reasoning])
    recorded = given.get("tool_calls") or []
    if calls and isinstance(recorded, list):
        given["tool_calls"] = [*recorded, *calls]
    metadata = given.get("metadata") or {}
    if others and isinstance(metadata, dict):
        given["metadata"] = {**metadata, "parts" if "parts" not in metadata else "parts (content)": others}
    return given


def _parts(content: list[Any]) -> _Parts:
    """Texts, reasoning, calls of tools, and what is kept of everything else."""
    found: _Parts = ([], [], [], [])
    texts, reasoning, calls, others = found
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            texts.append(part)
        elif kind in ("text", "input_text", "output_text", None) and isinstance(_of(part, "text"), str):
            texts.append(part["text"])
        elif kind in _REASONING:
            reasoning.append(_reasoning(part))
        elif kind == "tool_use":
            calls.append({"id": part.get("id"), "function": part.get("name"), "arguments": part.get("input")})
        else:
            texts.append(_placeholder(part, kind))
            others.append(_short(part))
    return found


def _of(part: Any, key: str) -> Any:
    return part.get(key) if isinstance(part, dict) else None


def _reasoning(part: Mapping[str, Any]) -> str:
    hidden = part.get("redacted") or part["type"] == "redacted_thinking"
    told = [part.get("summary")] if hidden else [part.get(key) for key in ("reasoning", "thinking", "text", "summary")]
    return next((text for text in told if isinstance(text, str) and text), "[reasoning withheld]")


def _placeholder(part: Any, kind: Any) -> str:
    """What stands for a part that is no text: `[image]`; what a tool gave back inside a message as its text."""
    if kind == "tool_result":
        inner = part.get("content")
        return inner if isinstance(inner, str) else "\n".join(_parts(inner)[0]) if isinstance(inner, list) else ""
    name = kind if isinstance(kind, str) and kind else "part"
    return "[image]" if "image" in name else f"[{name[:40]}]"


def _short(part: Any) -> Any:
    """A part without the data that nobody can read."""
    if isinstance(part, dict):
        return {key: _short(inner) for key, inner in part.items()}
    if isinstance(part, list):
        return [_short(inner) for inner in part]
    if isinstance(part, str) and len(part) > LONGEST_KEPT:
        return f"{part[:40]}… ({len(part)} characters)"
    return part
