"""A rubric's templates with a subject filled in."""

import json
from collections.abc import Mapping, Sequence

from evalscribe.model.chat import Message
from evalscribe.model.output_schema import has_citations
from evalscribe.model.rubric import PromptTemplateMessage, Rubric, split_template

CLOSING = "Give your final answer now."
"""Said where the templates leave the last word to the judge or to nobody: a model answers its user."""


def filled(rubric: Rubric, subject_text: str, citation_help: str) -> tuple[str, tuple[Message, ...]]:
    """The system prompt and the messages. What is filled in is data: braces in it stay as they are.

    `citation_help` ends the last message where the schema asks for citations.
    """
    schema = json.dumps(rubric.output_schema, indent=2, ensure_ascii=False)
    values = {"agent_run": subject_text, "rubric": rubric.rubric_text, "output_schema": schema}
    said = [(template.role, _filled(template, values)) for template in rubric.prompt_templates]
    system = "\n\n".join(text for role, text in said if role == "system")
    messages = [Message(role=role, text=text) for role, text in said if role != "system"]
    return system, _asking(messages, citation_help if has_citations(rubric.output_schema) else "")


def _filled(template: PromptTemplateMessage, values: Mapping[str, str]) -> str:
    return "".join(
        part for literal, name in split_template(template.content) for part in (literal, values[name] if name else "")
    )


def _asking(messages: Sequence[Message], citation_help: str) -> tuple[Message, ...]:
    """The messages, the user's last, with how to cite at its end."""
    if not messages or messages[-1].role == "assistant":
        messages = (*messages, Message(role="user", text=CLOSING))
    text = messages[-1].text
    ending = f"{text.rstrip()}\n\n{citation_help}" if citation_help else text
    return (*messages[:-1], Message(role="user", text=ending))
