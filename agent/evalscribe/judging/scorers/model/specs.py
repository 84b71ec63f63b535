"""From a scorer's name and config to the rubric that its judge goes by: the spec of a scorer that asks a model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from evalscribe.errors import RubricError, UsageError
from evalscribe.judging.scorers.model.configs import PLACEHOLDER, Config, LlmJudgeConfig, config_of
from evalscribe.judging.scorers.model.labels import scores_of
from evalscribe.judging.scorers.model.subjects import mark
from evalscribe.model.rubric import JudgeVariant, Rubric
from evalscribe.model.score import ScorerSpec
from evalscribe.prompts.templates import Prompts
from evalscribe.rubric_file import load_rubric

NAMES = {
    "llm_judge": "a model decides by criteria, a prompt_template or a stored rubric",
    "correctness": "a model compares the answer with what is expected: pass, partial or fail",
    "faithfulness": "a model says whether the context supports what the answer claims",
}
PASS_FAIL = {"pass": 1.0, "fail": 0.0}


@dataclass(frozen=True)
class Rulebook:
    """Where rubrics and prompts of scorers come from."""

    prompts: Prompts
    stored: Callable[[str], Rubric]
    """`NAME` the latest version, `NAME@2` that one. Raises `NotFoundError`."""


def model_spec(scorer: str, given: Mapping[str, JsonValue], rules: Rulebook) -> ScorerSpec:
    """A scorer of `NAMES` with its config complete and its rubric inside.

    Raises `UsageError` naming the key and its rule, `NotFoundError` for a rubric that there is not.
    """
    config = config_of(scorer, given)
    try:
        rubric = _with_model(_rubric(scorer, config, rules), config)
        worth = scores_of(rubric.output_schema, config.choice_scores, f"rubric {rubric.id}")
    except UsageError as error:
        raise UsageError(f"scorer {scorer}: {error}") from None
    complete = {
        **config.model_dump(mode="json", exclude={"provider"}),
        "model": rubric.judge_model.id,
        "choice_scores": worth,
        "samples": rubric.n_rollouts_per_input,
    }
    return ScorerSpec(name=scorer, scorer=scorer, config=complete, rubric=rubric, model=rubric.judge_model.id)


def _rubric(scorer: str, config: Config, rules: Rulebook) -> Rubric:
    if not isinstance(config, LlmJudgeConfig):
        return load_rubric(scorer, rules.prompts)
    if config.rubric is not None:
        return rules.stored(config.rubric)
    labels = list(config.choice_scores or PASS_FAIL)
    if config.criteria is not None:
        text = rules.prompts.render("judging/criteria.md.j2", criteria=config.criteria, labels=labels)
    else:
        asked = PLACEHOLDER.sub(lambda found: f"(the document `{mark(found[1])}`)", config.prompt_template or "")
        text = rules.prompts.render("judging/template.md.j2", template=asked, labels=labels)
    return Rubric(id=scorer, rubric_text=text, output_schema=_schema(labels, citations=config.citations))


def _schema(labels: list[str], *, citations: bool) -> dict[str, Any]:
    explanation = {"type": "string", "description": "Two or three sentences that give the reason."}
    return {
        "type": "object",
        "properties": {
            "explanation": {**explanation, **({"citations": True} if citations else {})},
            "label": {"type": "string", "enum": labels},
        },
        "required": ["explanation", "label"],
        "additionalProperties": False,
    }


def _with_model(rubric: Rubric, config: Config) -> Rubric:
    """The rubric with the model and the number of samples that are wanted, checked as a whole again."""
    changes: dict[str, Any] = {}
    model = config.model_id
    if model is not None and model != rubric.judge_model.id:
        changes["judge_model"] = model
    if config.samples is not None and config.samples != rubric.n_rollouts_per_input:
        changes |= {"n_rollouts_per_input": config.samples, "judge_variant": JudgeVariant.MAJORITY}
    if not changes:
        return rubric
    try:
        return Rubric(**{**dict(rubric), **changes})
    except RubricError as error:
        key = "model" if error.path.startswith("judge_model") else "samples"
        raise UsageError(f"{key}: {error.problem}") from None
