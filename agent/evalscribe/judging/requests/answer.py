"""One question asked: a model's answer with its citations resolved, or why there is none."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from evalscribe.ids import Frozen, content_id
from evalscribe.judging.marks.resolve import resolve
from evalscribe.judging.requests.earlier import as_written
from evalscribe.judging.requests.question import Question
from evalscribe.judging.rubric.answer import Output, Problems
from evalscribe.judging.rubric.cited import resolved
from evalscribe.judging.rubric.question import tokens_of
from evalscribe.judging.rubric.rollout import Conversation, Form, Rollout, RubricForm
from evalscribe.model.chat import Effort, Message, Request, Usage
from evalscribe.model.protocols import Model
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts

VERSION = 1
"""Raised when the same question is read in another way than its key shows."""
TEMPLATE = "judging/request.md.j2"
LONGEST_ANSWER = 16_384
"""Tokens, thinking included."""
LEAST_ANSWER = 2_048
"""With less room than that nothing is asked."""
SURELY = 0.75
"""Tokens are estimated high: what is beyond the window by this share of them is beyond it for sure."""
TIMEOUT_S = 600.0
REFUSED = "the model refused to answer"
CUT = "the model finds the prompt too long: refer to less at once"
FREE = {
    "type": "object",
    "properties": {"output": {"type": "string", "citations": True}},
    "required": ["output"],
    "additionalProperties": False,
}
"""The shape that an answer in free text is read into."""


class Answer(Frozen):
    """What a question came to."""

    output: dict[str, Any] | None = None
    """With its citations: `{"output": text, "citations": […]}` without a schema."""
    error: str | None = None
    final: bool = False
    """Of an error: asking the same again is pointless."""
    usage: Usage = Usage()


class _FreeText:
    """An answer in the model's own words."""

    words = "in your own words"

    def read(self, text: str, _repeats: Callable[[str], bool]) -> Output | Problems:
        return {"output": text.strip()} if text.strip() else ["the answer is empty"]


class Questioner:
    """Asks one model, for answers of one shape."""

    def __init__(
        self, model: Model, prompts: Prompts, schema: dict[str, Any] | None = None, effort: Effort | None = None
    ) -> None:
        """`schema`: what answers must fit; None for free text. Raises `RubricError` for one that is none."""
        self._model = model
        self._prompts = prompts
        self._schema = schema
        self._effort = effort
        self._rubric = _free() if schema is None else Rubric(id="request", rubric_text="request", output_schema=schema)
        self._form: Form = _FreeText() if schema is None else RubricForm(self._rubric)

    def request(self, question: Question) -> Request:
        """The question as one call."""
        schema = None if self._schema is None else json.dumps(self._schema, indent=2, ensure_ascii=False)
        cites = question.subject.citation_help if question.subject.items else None
        system = self._prompts.render(TEMPLATE, citation_help=cites, output_schema=schema)
        asked = Request(
            system=system.strip(), messages=(Message(role="user", text=question.text),), effort=self._effort
        )
        window = self._model.context_tokens
        left = max(LEAST_ANSWER, window - tokens_of(asked))
        return asked.model_copy(update={"max_tokens": min(LONGEST_ANSWER, window // 2, left)})

    def key(self, request: Request) -> str:
        """Content id of the question: model, prompt, schema, effort."""
        schema = None if self._schema is None else json.dumps(self._schema)
        return content_id([VERSION, "request", self._model.id, schema, request])

    def too_long(self, request: Request) -> str | None:
        """Why a question is not worth asking: by how much it is beyond the window."""
        window, prompt = self._model.context_tokens, int(tokens_of(request) * SURELY)
        over = prompt + LEAST_ANSWER - window
        if over <= 0:
            return None
        return (
            f"the prompt has about {prompt:,} tokens, {over:,} more than {self._model.id} can read and answer "
            f"({window:,} in all): refer to less at once, or set EVALSCRIBE_CONTEXT_TOKENS where its window is larger"
        )

    def again(self, output: dict[str, Any], question: Question) -> dict[str, Any]:
        """A known answer to the same prompt, its citations leading to what this question refers to."""
        return self._cited(as_written(output), question)

    async def ask(self, question: Question, request: Request) -> Answer:
        """Raises `EvalscribeError` for what concerns all questions."""
        if reason := self.too_long(request):
            return Answer(error=reason, final=True)
        talk = Conversation(self._model, request, self._rubric, question.subject, self._form)
        rollout = await talk.run(TIMEOUT_S)
        if rollout.output is None:
            return Answer(error=_reason(rollout), final=rollout.final, usage=rollout.usage)
        return Answer(output=self._cited(rollout.output, question), usage=rollout.usage)

    def _cited(self, output: Output, question: Question) -> dict[str, Any]:
        if self._schema is not None:
            return resolved(output, self._schema, question.subject)
        cited = resolve(output["output"], question.subject).model_dump(mode="json")
        return {"output": cited["text"], "citations": cited["citations"]}


def _reason(rollout: Rollout) -> str:
    if rollout.too_long:
        return CUT
    return REFUSED if rollout.final else rollout.reason or "no answer"


@cache
def _free() -> Rubric:
    return Rubric(id="request", rubric_text="request", output_schema=FREE)
