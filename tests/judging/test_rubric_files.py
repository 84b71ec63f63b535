"""Rubric files: strict parsing, errors with file and line, and a lossless round trip."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from evalscribe.errors import NotFoundError, RubricError
from evalscribe.judging.rubrics import file_schema, load_rubric, parse_rubric, rubric_names, to_yaml
from evalscribe.model.finding import CAUSE_KINDS
from evalscribe.model.output_schema import validate_answer
from evalscribe.model.rubric import ModelOption, OutputParsingMode, Rubric
from evalscribe.prompts.templates import Prompts, shipped_folder

SHIPPED = ("behaviours", "correctness", "failure", "faithfulness", "helpfulness", "regression", "unfair-check")
BILLION = "\n".join(
    [
        "rubric_text: x",
        "a0: &a0 [x, x, x, x, x, x, x, x, x, x]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)),
    ]
)


def parse_error(text: str) -> RubricError:
    with pytest.raises(RubricError) as caught:
        parse_rubric(text, "mine", "rubrics/mine.yaml")
    assert str(caught.value).startswith("rubrics/mine.yaml")
    return caught.value


def write_rubric(workspace: Path, name: str, text: str) -> Path:
    path = workspace / "prompts" / "rubrics" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_parsed_rubric_gets_its_name_and_version_1() -> None:
    rubric = parse_rubric("rubric_text: Judge.\njudge_model: openai/gpt-5\n", "mine", "mine.yaml")
    assert (rubric.id, rubric.version, rubric.judge_model.id) == ("mine", 1, "openai/gpt-5")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", ": must be a mapping", id="empty"),
        pytest.param("- a", ": must be a mapping", id="list"),
        pytest.param("judge", ": must be a mapping", id="text"),
        pytest.param("rubric_text: [", ":1: is not valid YAML", id="syntax"),
        pytest.param("rubric_text: x\n\tfoo: 1", ":2: is not valid YAML", id="tab"),
        pytest.param("rubric_text: \x01", ": is not valid YAML", id="control-character"),
        pytest.param("a: 1\n---\nb: 2", ":2: is not valid YAML", id="two-documents"),
        pytest.param("rubric_text: !!python/object/apply:os.system [x]", ":1: is not valid YAML", id="python-object"),
        pytest.param("rubric_text: x\nfoo: 1", ":2: foo: is unknown", id="unknown-field"),
        pytest.param("rubric_text: x\n7: 1", ':2: ["7"]: is unknown', id="number-as-field"),
        pytest.param("rubric_text: x\nid: y", ":2: id: does not belong", id="id"),
        pytest.param("rubric_text: x\nversion: 2", ":2: version: does not belong", id="version"),
        pytest.param("a: 1\nrubric_text: x\nrubric_text: y", ':3: has "rubric_text" twice', id="twice"),
        pytest.param(
            "rubric_text: x\noutput_schema:\n  type: object\n  type: object",
            ':4: output_schema: has "type" twice',
            id="twice-inside",
        ),
        pytest.param(
            "rubric_text: x\noutput_schema:\n  type: object\n  properties:\n    a:\n      type: string\n"
            "      enum: [yes, no]",
            ":7: output_schema.properties.a.enum[0]: must be a text, not true",
            id="yes-and-no",
        ),
        pytest.param(
            "rubric_text: x\nprompt_templates:\n- role: user\n  content: |\n    {x}",
            ":4: prompt_templates[0].content: {x} is not a variable",
            id="template",
        ),
        pytest.param("rubric_text: x\njudge_model:\n  provider: acme", ":3: judge_model.provider", id="provider"),
        pytest.param("rubric_text: x\nmin_citations: 2026-01-01", ":2: min_citations", id="date"),
        pytest.param("rubric_text: 2026-99-01", ": contains a value that cannot be read", id="no-date"),
        pytest.param("a: &a {x: 1}\nb:\n  <<: *a", ":3: b: merging", id="merge-key"),
        pytest.param("rubric_text: &a [*a]", ":1: has too many", id="a-list-in-itself"),
        pytest.param(BILLION, ": has too many", id="aliases-of-aliases"),
        pytest.param("rubric_text: " + "{a: " * 5_000, ": is nested too deeply", id="deep"),
        pytest.param("rubric_text: " + "[" * 250 + "]" * 250, ":1: has too many", id="rather-deep"),
        pytest.param("rubric_text: " + "x" * 300_000, ": is larger than 256 KiB", id="large"),
    ],
)
def test_error_names_file_line_and_field_of_an_invalid_rubric(text: str, message: str) -> None:
    error = parse_error(text)
    assert message in str(error).removeprefix("rubrics/mine.yaml")
    assert len(str(error).splitlines()) == 1


def test_yaml_alias_used_once_is_accepted() -> None:
    text = "rubric_text: x\noutput_schema:\n  type: object\n  properties:\n    a: &a {type: string}\n    b: *a\n"
    assert list(parse_rubric(text, "mine", "f").output_schema["properties"]) == ["a", "b"]


@pytest.mark.parametrize("name", ["", "a@2", "../x", ".x", "a b", "x" * 101])
def test_invalid_rubric_name_is_refused(name: str) -> None:
    with pytest.raises(RubricError, match="cannot be called"):
        parse_rubric("rubric_text: x", name, "f.yaml")


# Finding files


def test_shipped_rubrics_are_listed_and_load() -> None:
    assert rubric_names(Prompts()) == SHIPPED
    assert [load_rubric(name, Prompts()).id for name in SHIPPED] == list(SHIPPED)


def test_workspace_rubric_overrides_the_shipped_one_and_is_listed_as_override(tmp_path: Path) -> None:
    write_rubric(tmp_path, "failure.yaml", "rubric_text: Mine.\n")
    write_rubric(tmp_path, "new.yaml", "rubric_text: New.\n")
    write_rubric(tmp_path, "notes.txt", "no rubric")
    prompts = Prompts(tmp_path)
    assert load_rubric("failure", prompts).rubric_text == "Mine."
    assert rubric_names(prompts) == tuple(sorted((*SHIPPED, "new")))
    assert prompts.overrides("rubrics") == ("rubrics/failure.yaml", "rubrics/new.yaml")


def test_rubric_is_loaded_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rubric(tmp_path, "mine.yaml", "rubric_text: Mine.\n")
    assert load_rubric(str(path), Prompts()).id == "mine"
    monkeypatch.chdir(tmp_path)
    assert load_rubric("prompts/rubrics/mine.yaml", Prompts()).id == "mine"


@pytest.mark.parametrize("name", ["nobody", "../failure", "no/such.yaml", "no.yml", "a\0b.yaml", "", "."])
def test_missing_rubric_raises_not_found_error(name: str) -> None:
    with pytest.raises(NotFoundError, match="not found"):
        load_rubric(name, Prompts())


def test_unknown_rubric_lists_the_available_names() -> None:
    with pytest.raises(NotFoundError, match=", ".join(SHIPPED)):
        load_rubric("failures", Prompts())


def test_error_names_the_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = write_rubric(tmp_path, "mine.yaml", "")
    path.write_bytes(b"rubric_text: \xff")
    for name, prompts in ((str(path), Prompts()), ("mine", Prompts(tmp_path))):
        with pytest.raises(RubricError, match=r"mine\.yaml.* is not UTF-8"):
            load_rubric(name, prompts)


def test_bad_file_does_not_hide_other_rubrics(tmp_path: Path) -> None:
    write_rubric(tmp_path, "bad.yaml", "").write_bytes(b"\xff")
    write_rubric(tmp_path, "big.yaml", "x" * 2_000_000)
    write_rubric(tmp_path, "good.yaml", "rubric_text: x\n")
    prompts = Prompts(tmp_path)
    assert load_rubric("good", prompts).id == "good"
    assert set(rubric_names(prompts)) == {"bad", "big", "good", *SHIPPED}
    assert prompts.overrides("rubrics") == ("rubrics/bad.yaml", "rubrics/big.yaml", "rubrics/good.yaml")


def test_symlink_out_of_the_workspace_is_not_listed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("rubric_text: secret\n")
    workspace = tmp_path / "workspace"
    write_rubric(workspace, "mine.yaml", "rubric_text: x\n")
    os.symlink(secret, workspace / "prompts" / "rubrics" / "linked.yaml")
    assert "linked" not in rubric_names(Prompts(workspace))


def test_named_pipe_does_not_block_loading(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(NotFoundError):
        load_rubric(str(tmp_path / "pipe.yaml"), Prompts())


# Shipped rubrics


@pytest.mark.parametrize("name", ["failure", "unfair-check"])
def test_failure_rubrics_have_the_four_labels_and_require_citations(name: str) -> None:
    rubric = load_rubric(name, Prompts())
    properties = rubric.output_schema["properties"]
    labels = ["MODEL_FAULT", "OVERLY_STRICT", "AMBIGUOUS_TASK", "KNOWN_GAP"]
    assert properties["classification"]["enum"] == labels
    kinds = list(CAUSE_KINDS) if name == "failure" else [kind for kind in CAUSE_KINDS if kind != "user"]
    assert properties["cause_kind"]["enum"] == kinds
    assert properties["reasoning"]["citations"] is True
    assert rubric.min_citations == 1
    assert all(label in rubric.rubric_text for label in labels)
    assert set(rubric.output_schema["required"]) == set(properties) - {"message", "first_mistake"}


def test_failure_rubric_accepts_a_valid_answer_and_refuses_confidence_above_1() -> None:
    answer = {
        "error": "e",
        "reasoning": "r",
        "classification": "MODEL_FAULT",
        "cause": "missing-as-const",
        "cause_kind": "model",
        "confidence": 0.9,
        "why": "w",
        "fix": "",
        "would_pass": False,
    }
    schema = load_rubric("failure", Prompts()).output_schema
    assert validate_answer(answer, schema) == []
    assert validate_answer({**answer, "confidence": 1.7}, schema) == ["confidence: 1.7 breaks maximum 1"]


# Writing


def test_rubric_is_written_as_readable_yaml_without_defaults() -> None:
    rubric = Rubric(
        rubric_text="Decide.\n\n1. Look.\n2. Say.\n",
        judge_model=ModelOption(provider="openai", model_name="gpt-5", reasoning_effort="high"),
        output_parsing_mode=OutputParsingMode.CONSTRAINED_DECODING,
        n_rollouts_per_input=3,
        id="mine",
        version=4,
    )
    assert to_yaml(rubric) == (
        "rubric_text: |\n  Decide.\n\n  1. Look.\n  2. Say.\n"
        "judge_model:\n  provider: openai\n  model_name: gpt-5\n  reasoning_effort: high\n"
        "output_parsing_mode: constrained_decoding\nn_rollouts_per_input: 3\n"
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_rubrics_survive_a_round_trip_through_yaml(name: str) -> None:
    rubric = load_rubric(name, Prompts())
    again = parse_rubric(to_yaml(rubric), name, "f")
    assert again == rubric
    assert again.digest == rubric.digest


def test_property_order_survives_a_round_trip_through_yaml() -> None:
    rubric = load_rubric("failure", Prompts())
    again = parse_rubric(to_yaml(rubric), "failure", "f")
    assert list(again.output_schema["properties"]) == list(rubric.output_schema["properties"])


# The schema of the file


def errors(document: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(file_schema()).iter_errors(document)]


def test_file_schema_accepts_the_shipped_rubrics() -> None:
    Draft202012Validator.check_schema(file_schema())
    for name in SHIPPED:
        assert errors(yaml.safe_load((shipped_folder("prompts") / "rubrics" / f"{name}.yaml").read_text())) == []


def test_file_schema_refuses_invalid_rubrics() -> None:
    assert errors({}) != []
    assert errors({"rubric_text": "x", "id": "y"}) != []
    assert errors({"rubric_text": "x", "judge_model": {"provider": "acme", "model_name": "x"}}) != []
    assert errors({"rubric_text": "x", "output_schema": {"type": "string"}}) != []
    inner = {"type": "array", "items": {"type": "integer", "citations": True}}
    assert errors({"rubric_text": "x", "output_schema": {"type": "object", "properties": {"a": inner}}}) != []


def test_schema_command_prints_the_file_schema(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from evalscribe.cli.rubric import schema

    assert schema("rubric") == 0
    assert json.loads(capsys.readouterr().out) == file_schema()
