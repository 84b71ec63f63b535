"""A chat completion, built from the chunks of its stream."""

import json
from typing import Any

from evalscribe.llm.completion import error_inside, text_of

GROWN = ("text", "summary", "data")
"""What a further piece of a thought makes longer."""
LATEST = ("reasoning_details", "tool_calls", "content", "refusal")


class ErrorInside(Exception):
    """An error that came as a chunk."""

    def __init__(self, error: object) -> None:
        super().__init__("an error for a chunk")
        self.error = error


class WrittenCompletion:
    """A `streaming.Written`. A refusal's words are not told as they come: they are the text only where no other is."""

    def __init__(self) -> None:
        self.whole = False
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._arguments: list[list[str]] = []
        self._thoughts: list[dict[str, Any]] = []
        self._other: dict[str, Any] = {}
        self._stop: Any = None
        self._usage: Any = None

    def take(self, event: dict[str, Any]) -> str:
        """Raises `ErrorInside`, and `AttributeError`, `KeyError` or `TypeError` for what is no chunk."""
        if (error := error_inside(event)) is not None:
            raise ErrorInside(error)
        # Some services tell it with every chunk, as a total so far.
        self._usage = event.get("usage") or self._usage
        choices = event.get("choices") or ()
        return "".join(self._choice(choice) for choice in choices[:1])

    def body(self) -> dict[str, Any]:
        """The completion as it would have come whole."""
        for call, arguments in zip(self._calls, self._arguments, strict=True):
            call["function"]["arguments"] = "".join(arguments)
            call.pop("index")
        said = {
            **self._other,
            "content": "".join(self._content) if self._content else None,
            "refusal": "".join(self._refusal) or None,
            "tool_calls": self._calls or None,
            "reasoning_details": self._thoughts or None,
        }
        return {"choices": [{"message": said, "finish_reason": self._stop}], "usage": self._usage}

    def _choice(self, choice: dict[str, Any]) -> str:
        self._stop = choice.get("finish_reason") or self._stop
        self.whole = self._stop is not None
        # A server that does not stream sends the whole message.
        delta = (choice["delta"] or {}) if "delta" in choice else dict(choice["message"])
        for call in delta.get("tool_calls") or ():
            self._call(call)
        for thought in delta.get("reasoning_details") or ():
            self._think(thought)
        self._other |= {name: value for name, value in delta.items() if value is not None and name not in LATEST}
        if delta.get("refusal"):
            self._refusal.append(delta["refusal"])
        if delta.get("content") is None:
            return ""
        text = text_of(delta["content"])
        self._content.append(text)
        return text

    def _call(self, delta: dict[str, Any]) -> None:
        index, function = delta.get("index"), delta.get("function") or {}
        number = self._number(index, delta.get("id"), function.get("name"))
        call = self._calls[number]
        call["id"] = call["id"] or delta.get("id")
        call["function"]["name"] = call["function"]["name"] or function.get("name")
        if extra := delta.get("extra_content"):
            call["extra_content"] = extra
        if arguments := function.get("arguments"):
            # Some servers send them as the object that they stand for.
            self._arguments[number].append(arguments if isinstance(arguments, str) else json.dumps(arguments))

    def _number(self, index: object, called: object, name: object) -> int:
        """Which call a delta belongs to. Some services give every call of a turn the index 0, or none."""
        for number in reversed(range(len(self._calls))):
            call = self._calls[number]
            same = not called or not call["id"] or call["id"] == called
            if call["index"] == index and same and not (index is None and name):
                return number
        self._calls.append({"index": index, "id": None, "type": "function", "function": {"name": None}})
        self._arguments.append([])
        return len(self._calls) - 1

    def _think(self, thought: dict[str, Any]) -> None:
        """Signatures hold for the thought as a whole, so its pieces are put together again."""
        last = self._thoughts[-1] if self._thoughts else {}
        ids = {last.get("id"), thought.get("id")} - {None}
        if (
            thought.get("index") is None
            or len(ids) > 1
            or any(last.get(k) != thought.get(k) for k in ("index", "type"))
        ):
            self._thoughts.append(dict(thought))
            return
        for name, value in thought.items():
            if value is not None:
                last[name] = (last.get(name) or "") + value if name in GROWN else value
