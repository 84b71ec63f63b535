"""Judges by rubrics, with the models and the memory that they work with."""

from evalscribe.judging.rubric.judge import Results, RubricJudge
from evalscribe.ports import Models
from evalscribe.prompts import Prompts
from evalscribe.rubric import Rubric
from evalscribe.settings import Settings


def bounded_models(found: Settings, tokens: int, usd: float | None) -> Models:
    """Every model that these settings give access to. Both bounds hold, so that no price is needed."""
    from evalscribe.llm.budget import Budget
    from evalscribe.llm.service import Service

    window = found.context_tokens.value
    return Service(found.provider, Budget(usd=usd, tokens=tokens), context_tokens=window)


def rubric_judge(rubric: Rubric, models: Models, prompts: Prompts, results: Results | None = None) -> RubricJudge:
    """`prompts`: by whose templates a subject beyond the window is read. Raises as `Models.open` does."""
    from evalscribe.llm.prices import price

    name = rubric.judge_model.id
    model, observer, cost = models.open(name, "judge"), models.open(name, "observe"), price(name)
    return RubricJudge(
        rubric, model, results=results, observer=observer, cost=cost.cost if cost else None, prompts=prompts
    )
