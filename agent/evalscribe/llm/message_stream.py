"""A message of Anthropic's, built from the events of its stream."""

import json
from typing import Any

GROWN = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""What a delta makes longer, by its type."""


class WrittenMessage:
    """A `streaming.Written`. Events and deltas of other types are left out, as the vendor asks of its readers."""

    def __init__(self) -> None:
        self.whole = False
        self._message: dict[str, Any] = {}
        self.counted = False
        """Whether the length of the answer was told: what a message begins with is no count of it."""
        self._blocks: list[dict[str, Any]] = []
        self._grown: dict[tuple[int, str], list[str]] = {}

    def take(self, event: dict[str, Any]) -> str:
        """Raises `KeyError`, `IndexError`, `TypeError` or `ValueError` for what is no event, or has no place here."""
        match event["type"]:
            case "message_start":
                self._start(event["message"])
            case "content_block_start":
                return self._begin(event["index"], dict(event["content_block"]))
            case "content_block_delta":
                return self._grow(event["index"], event["delta"])
            case "message_delta":
                self._end(event["delta"], event.get("usage") or {})
            case "message_stop":
                self.whole = bool(self._message)
            case "message":
                self._start(event)
                self._blocks, self.whole, self.counted = event["content"], True, True
            case "error":
                raise ValueError("an error for an answer")
        return ""

    def body(self) -> dict[str, Any]:
        """The message as it would have come whole."""
        for (index, field), parts in self._grown.items():
            block, text = self._blocks[index], "".join(parts)
            if field == "partial_json":
                block["input"] = _input(text)
            else:
                block[field] = (block.get(field) or "") + text
        self._grown = {}
        return {**self._message, "content": self._blocks}

    def _start(self, message: dict[str, Any]) -> None:
        if self._message:
            raise ValueError("a second message")
        self._message = {**message, "usage": dict(message.get("usage") or {})}

    def _begin(self, index: int, block: dict[str, Any]) -> str:
        if index != len(self._blocks) or not self._message:
            raise ValueError("a block out of place")
        another = any(earlier["type"] == "text" for earlier in self._blocks)
        self._blocks.append(block)
        if block["type"] != "text":
            return ""
        return ("\n" if another else "") + str(block["text"])

    def _grow(self, index: int, delta: dict[str, Any]) -> str:
        block = self._blocks[index]
        if delta["type"] == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            return ""
        field = GROWN.get(delta["type"])
        if field is None:
            return ""
        text = delta[field]
        if not isinstance(text, str):
            raise TypeError(field)
        self._grown.setdefault((index, field), []).append(text)
        return text if field == "text" else ""

    def _end(self, delta: dict[str, Any], usage: dict[str, Any]) -> None:
        """Counts are totals so far; those that are not told stay as they were."""
        self._message.update(delta)
        self.counted = self.counted or usage.get("output_tokens") is not None
        self._message["usage"].update({name: count for name, count in usage.items() if count is not None})


def _input(text: str) -> Any:
    """Of a call of a tool; text where it was cut off."""
    if not text:
        return {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
