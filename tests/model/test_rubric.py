"""Rubrics: accepted and refused fields, immutability, and the digest."""

from typing import Any

import pytest
from pydantic import ValidationError

from evalscribe.errors import RubricError
from evalscribe.model.rubric import (
    DEFAULT_SCHEMA,
    JudgeVariant,
    LabelSet,
    ModelOption,
    OutputParsingMode,
    PromptTemplateMessage,
    Rubric,
)

ALL = "{rubric} {agent_run} {output_schema} <response>"


def user(*contents: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content} for content in contents]


def refusal(**fields: Any) -> RubricError:
    with pytest.raises(RubricError) as caught:
        Rubric(**{"rubric_text": "Judge.", **fields})
    return caught.value


def test_only_rubric_text_is_required() -> None:
    rubric = Rubric(rubric_text="Judge.")
    assert rubric.output_schema == DEFAULT_SCHEMA
    assert rubric.judge_model.id == "anthropic/claude-opus-5-5"
    assert (rubric.version, rubric.n_rollouts_per_input, rubric.judge_variant) == (1, 1, "majority")
    assert (rubric.output_parsing_mode, rubric.response_xml_key) == ("xml_key", "response")
    assert rubric.id != Rubric(rubric_text="Judge.").id
    with pytest.raises(RubricError, match="rubric_text: is missing"):
        Rubric()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        pytest.param({"rubric_text": " \n"}, "rubric_text", "is empty", id="no-text"),
        pytest.param({"rubric_text": 5}, "rubric_text", "string, not 5", id="text-is-a-number"),
        pytest.param({"rollout_type": "single_turn"}, "rollout_type", "unknown; fields: rubric_text", id="unknown"),
        pytest.param({"output_schema": {"type": "string"}}, "output_schema.type", "object", id="schema"),
        pytest.param({"judge_model": "gpt-5"}, "judge_model", "provider/name", id="model-without-provider"),
        pytest.param({"judge_model": "acme/x"}, "judge_model.provider", "anthropic, openai", id="provider"),
        pytest.param({"judge_model": "openai/"}, "judge_model.model_name", "is empty", id="model-without-name"),
        pytest.param({"judge_model": {"provider": "openai"}}, "judge_model.model_name", "missing", id="no-model"),
        pytest.param(
            {"judge_model": {"provider": "openai", "model_name": "x", "reasoning_effort": "huge"}},
            "judge_model.reasoning_effort",
            "'minimal', 'low'",
            id="effort",
        ),
        pytest.param({"output_parsing_mode": "yaml"}, "output_parsing_mode", "'xml_key' or", id="mode"),
        pytest.param({"response_xml_key": "a b"}, "response_xml_key", "not a tag name", id="tag-with-space"),
        pytest.param({"response_xml_key": "<a>"}, "response_xml_key", "not a tag name", id="tag-with-brackets"),
        pytest.param({"response_xml_key": "a\n"}, "response_xml_key", "not a tag name", id="tag-with-newline"),
        pytest.param({"response_xml_key": ""}, "response_xml_key", "not a tag name", id="no-tag"),
        pytest.param({"n_rollouts_per_input": 0}, "n_rollouts_per_input", "equal to 1", id="no-rollout"),
        pytest.param({"n_rollouts_per_input": 10**30}, "n_rollouts_per_input", "equal to 100", id="without-end"),
        pytest.param({"n_rollouts_per_input": -1}, "n_rollouts_per_input", "equal to 1", id="negative"),
        pytest.param({"judge_variant": "best"}, "judge_variant", "'single', 'majority'", id="variant"),
        pytest.param(
            {"judge_variant": "single", "n_rollouts_per_input": 3}, "n_rollouts_per_input", "must be 1", id="single"
        ),
        pytest.param({"version": 0}, "version", "equal to 1", id="version"),
        pytest.param(
            {"min_citations": 1, "output_schema": {"type": "object", "properties": {}}},
            "min_citations",
            "citations",
            id="nothing-to-cite-in",
        ),
        pytest.param({"prompt_templates": []}, "prompt_templates", "is empty", id="no-template"),
        pytest.param({"prompt_templates": ALL}, "prompt_templates", "tuple", id="template-is-a-text"),
        pytest.param({"prompt_templates": [5]}, "prompt_templates[0]", "not 5", id="template-is-a-number"),
        pytest.param(
            {"prompt_templates": [{"role": "tool", "content": ALL}]}, "prompt_templates[0].role", "'system'", id="role"
        ),
        pytest.param({"prompt_templates": user(ALL, "{x}")}, "prompt_templates[1].content", "{x} is no", id="second"),
    ],
)
def test_error_message_names_the_invalid_field(fields: dict[str, Any], path: str, words: str) -> None:
    error = refusal(**fields)
    assert error.path == path
    assert words in error.problem
    assert str(error).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("{rubric.x}", "{rubric.x} is not a variable", id="attribute"),
        pytest.param("{rubric[0]}", "{rubric[0]} is not a variable", id="item"),
        pytest.param("{}", "{} is not a variable", id="positional"),
        pytest.param("{0}", "{0} is not a variable", id="number"),
        pytest.param("{citation_instructions}", "is not a variable", id="unknown"),
        pytest.param("{ rubric }", "{ rubric } is not a variable", id="spaces"),
        pytest.param('{"label": 1}', "is not a variable", id="json"),
        pytest.param("{% if rubric %}", "is not a variable", id="jinja-statement"),
        pytest.param("{rubric!r}", "no format or conversion", id="conversion"),
        pytest.param("{rubric:>900000000}", "no format or conversion", id="format"),
        pytest.param("{rubric:{agent_run}}", "no format or conversion", id="nested-format"),
        pytest.param("a { b", "'}'", id="lone-opening-brace"),
        pytest.param("a } b", "Single '}'", id="lone-closing-brace"),
    ],
)
def test_prompt_template_with_other_placeholders_is_refused(content: str, words: str) -> None:
    error = refusal(prompt_templates=user(ALL + content))
    assert error.path == "prompt_templates[0].content"
    assert words in error.problem


@pytest.mark.parametrize("name", ["agent_run", "rubric", "output_schema"])
def test_prompt_templates_must_use_every_variable(name: str) -> None:
    error = refusal(prompt_templates=user(ALL.replace(f"{{{name}}}", "")))
    assert error.path == "prompt_templates"
    assert f"{{{name}}}" in error.problem


def test_variables_may_be_spread_over_messages_of_any_role() -> None:
    templates = [
        PromptTemplateMessage(role="system", content="{rubric}"),
        PromptTemplateMessage(role="assistant", content="{output_schema} <response>"),
        PromptTemplateMessage(role="user", content="{agent_run}"),
    ]
    assert Rubric(rubric_text="x", prompt_templates=templates).prompt_templates == tuple(templates)  # type: ignore[arg-type]


def test_doubled_braces_are_accepted_in_templates() -> None:
    Rubric(rubric_text="x", prompt_templates=user(ALL + " {{ 7*7 }} {{%}}"))  # type: ignore[arg-type]


def test_prompt_must_mention_the_response_tag() -> None:
    error = refusal(prompt_templates=user(ALL), response_xml_key="answer")
    assert error.path == "prompt_templates"
    assert "<answer>" in error.problem
    assert refusal(prompt_templates=user(ALL.replace("<response>", '<response a="b">'))).path == "prompt_templates"


def test_constrained_decoding_needs_no_response_tag() -> None:
    plain = user(ALL.replace("<response>", ""))
    mode = OutputParsingMode.CONSTRAINED_DECODING
    assert Rubric(rubric_text="x", prompt_templates=plain, output_parsing_mode=mode)  # type: ignore[arg-type]


def test_default_prompt_mentions_the_response_tag_only_in_xml_mode() -> None:
    tagged = Rubric(rubric_text="x", response_xml_key="answer").prompt_templates[0].content
    assert "<answer> and </answer>" in tagged
    assert "<response>" not in tagged
    constrained = Rubric(rubric_text="x", output_parsing_mode=OutputParsingMode.CONSTRAINED_DECODING)
    assert "<response>" not in constrained.prompt_templates[0].content


def test_judge_model_may_be_given_by_its_id() -> None:
    model = Rubric(rubric_text="x", judge_model="openrouter/anthropic/claude-3-opus").judge_model  # type: ignore[arg-type]
    assert model == ModelOption(provider="openrouter", model_name="anthropic/claude-3-opus")


def test_parts_of_a_rubric_raise_rubric_errors_on_their_own() -> None:
    with pytest.raises(RubricError, match=r"^provider: there is no provider 'x'"):
        ModelOption(provider="x", model_name="y")
    with pytest.raises(RubricError, match=r"^role: must be"):
        PromptTemplateMessage(role="tool", content="x")  # type: ignore[arg-type]
    with pytest.raises(RubricError, match=r"^name: is empty"):
        LabelSet(name="", label_schema=DEFAULT_SCHEMA)
    with pytest.raises(RubricError, match="dictionary"):
        Rubric.model_validate(5)
    with pytest.raises(RubricError, match=r"^output_schema\.type"):
        Rubric.model_validate_json('{"rubric_text": "x", "output_schema": {"type": "string"}}')


def test_rubric_is_frozen() -> None:
    rubric = Rubric(rubric_text="x")
    with pytest.raises(ValidationError, match="frozen"):
        rubric.rubric_text = "y"


def test_rubric_is_unaffected_by_later_changes_of_its_arguments() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}
    rubric = Rubric(rubric_text="x", output_schema=schema)
    schema["properties"]["a"]["enum"].append("y")
    assert rubric.output_schema["properties"]["a"]["enum"] == ["x"]
    Rubric(rubric_text="x").output_schema["properties"].clear()
    assert Rubric(rubric_text="x").output_schema["properties"]
    assert DEFAULT_SCHEMA["properties"]


def test_digest_covers_judging_fields_but_not_id_and_version() -> None:
    rubric = Rubric(rubric_text="x")
    assert rubric.digest == Rubric(rubric_text="x", id="other", version=7).digest
    assert rubric.digest == Rubric.model_validate_json(rubric.model_dump_json()).digest
    changed = [
        Rubric(rubric_text="y"),
        Rubric(rubric_text="x", judge_variant=JudgeVariant.MULTI_REFLECT),
        Rubric(rubric_text="x", min_citations=1),
        Rubric(rubric_text="x", response_xml_key="answer"),
        Rubric(rubric_text="x", judge_model=ModelOption(provider="openai", model_name="gpt-5")),
    ]
    assert len({rubric.digest, *(each.digest for each in changed)}) == 1 + len(changed)


def test_digest_depends_on_the_order_of_properties() -> None:
    turned = {**DEFAULT_SCHEMA, "properties": dict(reversed(DEFAULT_SCHEMA["properties"].items()))}
    assert turned == DEFAULT_SCHEMA
    assert Rubric(rubric_text="x", output_schema=turned).digest != Rubric(rubric_text="x").digest
