"""Judges by rubrics, with the models and the memory that they work with."""

from evalscribe.judging.rubric.judge import Results, RubricJudge
from evalscribe.ports import Models
from evalscribe.prompts import Prompts
from evalscribe.rubric import Rubric
from evalscribe.wiring.models import cost_of


def rubric_judge(rubric: Rubric, models: Models, prompts: Prompts, results: Results | None = None) -> RubricJudge:
    """`prompts`: by whose templates a subject beyond the window is read. Raises as `Models.open` does."""
    name = rubric.judge_model.id
    model, observer = models.open(name, "judge"), models.open(name, "observe")
    return RubricJudge(rubric, model, results=results, observer=observer, cost=cost_of(model), prompts=prompts)
