"""A rubric about politeness, agent runs for it, and a model's settings and answers."""

import json
from typing import Any

from support.messages_server import Answer, MessagesServer, says

KEY = "sk-ant-test-0000"
RUBRIC = """\
rubric_text: Was the agent polite?
output_schema:
  type: object
  properties:
    label: {type: string, enum: [polite, rude]}
    because: {type: string, citations: true}
  required: [label, because]
  additionalProperties: false
"""
POLITE = {"label": "polite", "because": "It greets [T0B1:<RANGE>Good morning</RANGE>]."}


def run(name: str, reply: str = "Good morning to you.") -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Hello, {name}."}, {"role": "assistant", "content": reply}]
    return {"id": name, "transcripts": [{"messages": messages}]}


def says_json(value: Any) -> Answer:
    return says(f"<response>{json.dumps(value)}</response>")


def access(server: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5"}
