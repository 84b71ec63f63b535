"""Filling a subject and a rubric into prompt templates."""

import json

from evalscribe.judging.rollout import CLOSING, fill_templates
from evalscribe.model.chat import Message
from evalscribe.model.rubric import DEFAULT_SCHEMA, PromptTemplateMessage, Rubric

SCHEMA = json.dumps(DEFAULT_SCHEMA, indent=2)
WITHOUT = {"type": "object", "properties": {"label": {"type": "string"}}}


def rubric(*templates: tuple[str, str], schema: dict[str, object] = DEFAULT_SCHEMA, text: str = "RULES") -> Rubric:
    template_messages = tuple(
        PromptTemplateMessage.model_validate({"role": role, "content": content}) for role, content in templates
    )
    return Rubric(rubric_text=text, output_schema=schema, prompt_templates=template_messages)


def test_every_occurrence_of_a_variable_is_filled_in() -> None:
    system, messages = fill_templates(
        rubric(("system", "{rubric}"), ("user", "{agent_run}|{rubric}"), ("user", "{output_schema} <response>")),
        "RUN",
        "",
    )
    assert system == "RULES"
    assert messages == (Message(role="user", text="RUN|RULES"), Message(role="user", text=f"{SCHEMA} <response>"))


def test_inserted_text_is_not_expanded_again() -> None:
    hostile = "{rubric} {0} {{x}} {output_schema"
    _, messages = fill_templates(
        rubric(("user", "{agent_run}{rubric}{output_schema}<response>"), text="{agent_run}"), hostile, ""
    )
    assert messages[0].text == f"{hostile}{{agent_run}}{SCHEMA}<response>"


def test_doubled_braces_become_single_braces_and_are_not_evaluated() -> None:
    _, messages = fill_templates(rubric(("user", "{{ 7*7 }}{agent_run}{rubric}{output_schema}<response>")), "RUN", "")
    assert messages[0].text.startswith("{ 7*7 }RUN")


def test_citation_help_ends_the_last_message() -> None:
    templates = (("user", "{agent_run}{rubric}"), ("user", "{output_schema}<response>\n"))
    _, messages = fill_templates(rubric(*templates), "RUN", "Cite like [T0B1].")
    assert messages[0].text == "RUNRULES"
    assert messages[1].text.endswith("<response>\n\nCite like [T0B1].")


def test_citation_help_is_omitted_if_no_field_has_citations() -> None:
    _, messages = fill_templates(
        rubric(("user", "{agent_run}{rubric}{output_schema}<response>"), schema=WITHOUT), "R", "Cite."
    )
    assert "Cite." not in messages[0].text


def test_nested_citation_field_adds_the_citation_help() -> None:
    schema = {
        "type": "object",
        "properties": {"list": {"type": "array", "items": {"type": "string", "citations": True}}},
    }
    _, messages = fill_templates(
        rubric(("user", "{agent_run}{rubric}{output_schema}<response>"), schema=schema), "R", "Cite."
    )
    assert messages[0].text.endswith("Cite.")


def test_last_message_always_has_the_user_role() -> None:
    only_system = rubric(("system", "{agent_run}{rubric}{output_schema}<response>"))
    system, messages = fill_templates(only_system, "RUN", "Cite.")
    assert system.startswith("RUNRULES")
    assert messages == (Message(role="user", text=f"{CLOSING}\n\nCite."),)
    _, messages = fill_templates(
        rubric(("user", "{agent_run}{rubric}"), ("assistant", "{output_schema}<response>")), "RUN", ""
    )
    assert [message.role for message in messages] == ["user", "assistant", "user"]


def test_default_prompt_holds_rubric_agent_run_and_schema() -> None:
    system, (message,) = fill_templates(Rubric(rubric_text="RULES"), "RUN", "Cite.")
    assert system == ""
    assert "<rubric>\nRULES\n</rubric>" in message.text
    assert "<agent_run>\nRUN\n</agent_run>" in message.text
    assert SCHEMA in message.text
    assert message.text.endswith("\n\nCite.")
