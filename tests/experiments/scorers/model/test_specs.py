"""Configs of model-based scorers: validation, defaults and version ids."""

from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import EvalscribeError, NotFoundError, UsageError
from evalscribe.experiments.scorers.model_specs import RubricSources, model_spec
from evalscribe.judging.rubrics import load_rubric
from evalscribe.model.score import ScorerSpec
from evalscribe.prompts.templates import Prompts

FOUR = ("MODEL_FAULT", "OVERLY_STRICT", "AMBIGUOUS_TASK", "KNOWN_GAP")


def rules(workspace: Path | None = None) -> RubricSources:
    prompts = Prompts(workspace)
    return RubricSources(prompts, lambda name: load_rubric(name, prompts))


def spec(scorer: str, workspace: Path | None = None, **config: Any) -> ScorerSpec:
    return model_spec(scorer, config, rules(workspace))


@pytest.mark.parametrize(
    ("scorer", "config", "message"),
    [
        ("llm_judge", {}, "exactly one of criteria, prompt_template, rubric"),
        ("llm_judge", {"criteria": "a", "rubric": "failure"}, "exactly one of"),
        ("llm_judge", {"criteria": " "}, "criteria is empty"),
        ("llm_judge", {"criteria": "a", "temperature": 0}, "temperature is not supported"),
        ("llm_judge", {"criteria": "a", "use_cot": True}, "use_cot is unknown"),
        ("llm_judge", {"criteria": "a", "threshold": 1.5}, "threshold must be less than or equal to 1"),
        ("llm_judge", {"criteria": "a", "samples": 0}, "samples must be greater"),
        ("llm_judge", {"criteria": "a", "samples": True}, "samples must be a valid integer"),
        ("llm_judge", {"criteria": "a", "model": "gpt"}, "write provider/name"),
        ("llm_judge", {"criteria": "a", "model": "nobody/gpt"}, "there is no provider 'nobody'"),
        ("llm_judge", {"criteria": "a", "provider": "openai"}, "provider is given without model"),
        ("llm_judge", {"criteria": "a", "choice_scores": {"good": 2, "bad": 0}}, "choice_scores.good must be less"),
        ("llm_judge", {"criteria": "a", "choice_scores": {"good": 1}}, "choice_scores"),
        ("llm_judge", {"prompt_template": "Is {{input}} nice?"}, "must contain {{output}}"),
        ("llm_judge", {"prompt_template": "{{output}} {{peer}}"}, "peer must begin with one of"),
        ("llm_judge", {"prompt_template": "{{output}}", "include_expected": True}, "itself names the parts to show"),
        (
            "llm_judge",
            {"rubric": "helpfulness", "citations": False},
            "a stored rubric itself defines whether citations are required",
        ),
        ("llm_judge", {"rubric": "failure"}, "choice_scores lacks 'MODEL_FAULT'"),
        (
            "llm_judge",
            {"rubric": "helpfulness", "choice_scores": {"pass": 1, "fail": 0, "so": 1}},
            "unknown label 'so'",
        ),
        ("llm_judge", {"rubric": "behaviours"}, "has no enum field"),
        ("correctness", {"answer_field": "answer"}, "write output.answer"),
        ("faithfulness", {}, "context_fields is missing"),
        ("faithfulness", {"context_fields": []}, "context_fields is empty"),
        ("faithfulness", {"context_fields": ["trace.x"]}, "must begin with one of"),
    ],
)
def test_invalid_config_is_refused_naming_scorer_key_and_rule(
    scorer: str, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        spec(scorer, **config)
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"scorer {scorer}: ")


def test_unknown_rubric_error_lists_available_rubrics() -> None:
    with pytest.raises(NotFoundError, match=r"rubric 'none' not found; .*helpfulness"):
        spec("llm_judge", rubric="none")


def test_config_includes_defaults_and_round_trips_to_the_same_id() -> None:
    scorer_spec = spec("llm_judge", criteria="It greets.", provider="openai", model="gpt-x", samples=3)
    assert scorer_spec.model == "openai/gpt-x" == scorer_spec.config["model"]
    assert scorer_spec.config["choice_scores"] == {"pass": 1.0, "fail": 0.0}
    assert (scorer_spec.config["samples"], scorer_spec.config["threshold"]) == (3, 0.7)
    assert scorer_spec.rubric is not None
    assert scorer_spec.rubric.n_rollouts_per_input == 3
    assert "It greets." in scorer_spec.rubric.rubric_text
    assert model_spec("llm_judge", scorer_spec.config, rules()).id == scorer_spec.id, (
        "written out, it is the same scorer"
    )


def test_template_variables_become_document_references() -> None:
    scorer_spec = spec("llm_judge", prompt_template="Does {{output.answer}} fit {{ input }}? {x} {{{}}}")
    assert scorer_spec.rubric is not None
    assert (
        "Does (the document `output output.answer`) fit (the document `task input`)? {x}"
        in scorer_spec.rubric.rubric_text
    )


def test_choice_scores_come_from_the_stored_rubric_or_the_config() -> None:
    assert spec("llm_judge", rubric="helpfulness").config["choice_scores"] == {"pass": 1.0, "fail": 0.0}
    worth = dict(zip(FOUR, (0, 1, 0.5, 1), strict=True))
    assert spec("llm_judge", rubric="failure", choice_scores=worth).config["choice_scores"] == worth


@pytest.mark.parametrize("change", [{"threshold": 0.8}, {"model": "openai/gpt-x"}, {"samples": 3}, {"criteria": "b"}])
def test_changing_any_setting_changes_the_spec_id(change: dict[str, Any]) -> None:
    assert spec("llm_judge", **{"criteria": "a", **change}).id != spec("llm_judge", criteria="a").id


def test_workspace_prompt_overrides_the_shipped_one_and_changes_the_id(tmp_path: Path) -> None:
    own = tmp_path / "prompts" / "rubrics" / "correctness.yaml"
    own.parent.mkdir(parents=True)
    shipped = Prompts().source("rubrics/correctness.yaml")
    own.write_text(shipped)
    assert spec("correctness", tmp_path).id == spec("correctness").id
    own.write_text(shipped.replace("Another wording", "Any other wording"))
    changed = spec("correctness", tmp_path)
    assert changed.id != spec("correctness").id
    assert changed.rubric is not None
    assert "Any other wording" in changed.rubric.rubric_text


def test_workspace_rubric_with_other_labels_needs_choice_scores(tmp_path: Path) -> None:
    own = tmp_path / "prompts" / "rubrics" / "correctness.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(Prompts().source("rubrics/correctness.yaml").replace("[pass, partial, fail]", "[right, wrong]"))
    with pytest.raises(EvalscribeError, match="choice_scores lacks 'right'"):
        spec("correctness", tmp_path)
    assert spec("correctness", tmp_path, choice_scores={"right": 1, "wrong": 0}).config["threshold"] == 0.7
