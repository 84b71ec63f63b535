"""What a reader of one part observed: asked for, read, and checked against the whole subject."""

from collections.abc import Iterable, Sequence
from functools import cache

from evalscribe.judging.marks.resolve import resolve
from evalscribe.judging.rubric.rollout import Conversation
from evalscribe.judging.subject.item import Subject
from evalscribe.model.chat import CallFailed, Message, Request, Usage
from evalscribe.model.protocols import Model
from evalscribe.model.result import ResolvedCitation
from evalscribe.model.rubric import Rubric

ANSWER_TOKENS = 8192
"""Of one answer, where the window is not small."""
NOT_THERE = "(citation not found)"
UNVERIFIED = "(unverified) "
SCHEMA = {
    "type": "object",
    "properties": {"observations": {"type": "array", "items": {"type": "string", "citations": True}}},
    "required": ["observations"],
    "additionalProperties": False,
}


class TooLong(Exception):
    """The provider counts more tokens than we did: the part has to be read in smaller ones."""

    def __init__(self, usage: Usage) -> None:
        super().__init__("beyond the model's context window")
        self.usage = usage


async def ask(model: Model, question: str, subject: Subject, max_tokens: int) -> tuple[tuple[str, ...], Usage]:
    """The observations of one answer, as the model wrote them, and what they took; how long is up to the model.

    Raises `TooLong`, `CallFailed` with the usage of every try, or `EvalscribeError` for what concerns all calls.
    """
    opening = Request(system="", messages=(Message(role="user", text=question),), max_tokens=max_tokens)
    answer = await Conversation(model, opening, _shape(), subject).run(None)
    if answer.output is not None:
        return tuple(text for text in map(str.strip, answer.output["observations"]) if text), answer.usage
    if answer.too_long:
        raise TooLong(answer.usage)
    raise CallFailed(answer.reason or "no answer", answer.usage)


@cache
def _shape() -> Rubric:
    """An answer is read as that of any rubric is."""
    return Rubric(id="observations", rubric_text="Observe.", output_schema=SCHEMA)


def checked(texts: Iterable[str], subject: Subject) -> tuple[str, ...]:
    """Observations as a judge may see them: a citation that does not hold is gone, and one without any is marked."""
    return tuple(_checked(text, subject) for text in texts)


def _checked(text: str, subject: Subject) -> str:
    text = text.removeprefix(UNVERIFIED)
    citations = resolve(text, subject).citations
    held = [citation for citation in citations if citation.status != "unverified"]
    for start, end in reversed(_wrong(citations, held)):
        text = text[:start] + NOT_THERE + text[end:]
    return text if held else UNVERIFIED + text


def _wrong(citations: Iterable[ResolvedCitation], held: Sequence[ResolvedCitation]) -> list[tuple[int, int]]:
    """Places of citations that do not hold, but for those that share their brackets with one that does."""
    spans = {(one.start_idx, one.end_idx) for one in citations if one.status == "unverified"}
    apart = [(a, b) for a, b in spans if not any(one.start_idx < b and a < one.end_idx for one in held)]
    return sorted(apart)
