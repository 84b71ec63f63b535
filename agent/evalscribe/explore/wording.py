"""What a model is asked at each step, as rubrics: the question stands in them as data."""

from typing import Any

from evalscribe.ids import content_id
from evalscribe.judging.fence import Fence, visible
from evalscribe.model.rubric import PromptTemplateMessage, Rubric
from evalscribe.prompts.templates import Prompts

FOLDER = "explore"
QUESTION = "explore/question.md.j2"
OBSERVE, CLUSTER, ANSWER = "explore/observe.md.j2", "explore/cluster.md.j2", "explore/answer.md.j2"
MOST_OBSERVED = 40
"""Observations of one batch."""


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_CITED = {"type": "string", "citations": True}
_CLUSTER = _object(
    name={**_TEXT, "description": "Short kebab-case name."},
    text={**_TEXT, "description": "One sentence that is true of all members."},
    members={"type": "array", "items": _TEXT, "description": "Ids, such as O3."},
)


def observing_rubric(prompts: Prompts, question: str) -> Rubric:
    """What is there that speaks to the question: `{"observations": [text with citations, …]}`."""
    return _rubric(prompts, question, OBSERVE, _object(observations={"type": "array", "items": _CITED}))


def clustering_rubric(prompts: Prompts, question: str) -> Rubric:
    """What says the same: `{"clusters": [{"name", "text", "members": [id, …]}, …]}`."""
    return _rubric(prompts, question, CLUSTER, _object(clusters={"type": "array", "items": _CLUSTER}))


def answering_rubric(prompts: Prompts, question: str) -> Rubric:
    """The answer: `{"answer": text with citations}`."""
    return _rubric(prompts, question, ANSWER, _object(answer=_CITED))


def _rubric(prompts: Prompts, question: str, template: str, schema: dict[str, Any]) -> Rubric:
    fenced = Fence(content_id(question), [question]).block("question", visible(question))
    message = prompts.render(template, most=MOST_OBSERVED)
    return Rubric(
        id=template.removesuffix(".md.j2").replace("/", "-"),
        rubric_text=prompts.render(QUESTION, question=fenced).strip(),
        output_schema=schema,
        prompt_templates=(PromptTemplateMessage(role="user", content=message),),
    )
