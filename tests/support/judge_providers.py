"""Providers on loopback whose judges always give an answer that fits the rubric."""

import json
from typing import Any

from evalscribe import OutputParsingMode, Rubric
from support import chat_server, messages_server
from support.chat_server import ChatServer
from support.messages_server import MessagesServer
from support.scripted_server import Answer, Call


class Providers:
    """An Anthropic and an OpenAI server. They answer by the schema of `rubric`, or with `fixed` if it is set."""

    def __init__(self) -> None:
        self.rubric = Rubric(rubric_text="none yet")
        self.fixed: str | None = None
        self.anthropic = MessagesServer(lambda _: messages_server.says(self._answer()))
        self.openai = ChatServer(lambda _: chat_server.says(self._answer()))

    @property
    def calls(self) -> list[Call]:
        return self.anthropic.calls + self.openai.calls

    @property
    def environment(self) -> dict[str, str]:
        return {
            "ANTHROPIC_API_KEY": "test-key",
            "ANTHROPIC_BASE_URL": self.anthropic.url,
            "OPENAI_API_KEY": "test-key",
            "OPENAI_BASE_URL": self.openai.url,
        }

    def _answer(self) -> str:
        if self.fixed is not None:
            return self.fixed
        text = json.dumps(instance(self.rubric.output_schema))
        tag = self.rubric.response_xml_key
        tagged = self.rubric.output_parsing_mode is OutputParsingMode.XML_KEY
        return f"I looked closely.\n<{tag}>{text}</{tag}>" if tagged else text


def instance(schema: dict[str, Any]) -> Any:
    """Return a value that fits the schema. Texts in it cite the first message."""
    kind = schema["type"]
    if kind == "object":
        return {name: instance(part) for name, part in schema["properties"].items()}
    if kind == "array":
        return [instance(schema["items"])]
    if "enum" in schema:
        return schema["enum"][0]
    return {"string": "See [T0B0].", "boolean": True}.get(kind, schema.get("minimum", 1))


def label(word: str) -> Answer:
    return messages_server.says(f'<response>{{"label": "{word}", "explanation": "[T0B0]"}}</response>')
