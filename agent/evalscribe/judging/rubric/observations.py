"""What a reader of one part observed: asked for, read, and checked against the whole subject."""

from collections.abc import Iterable, Sequence
from functools import cache

from evalscribe.chat import CallFailed, Message, Request, Usage
from evalscribe.judge_result import ResolvedCitation
from evalscribe.judging.marks import resolve
from evalscribe.judging.rubric.answer import read_answer
from evalscribe.judging.subject import Subject
from evalscribe.ports import Model
from evalscribe.rubric import Rubric

ANSWER_TOKENS = 8192
TRIES = 2
"""A bad answer is sent back once with what is wrong with it."""
NOT_THERE = "(citation not found)"
UNVERIFIED = "(unverified) "
SCHEMA = {
    "type": "object",
    "properties": {"observations": {"type": "array", "items": {"type": "string", "citations": True}}},
    "required": ["observations"],
    "additionalProperties": False,
}
STOPPED = {
    "refusal": "the model refused",
    "max_tokens": "the answer was cut off",
    "tool_use": "the model called a tool that it was not offered",
}


class TooLong(Exception):
    """The provider counts more tokens than we did: the part has to be read in smaller ones."""

    def __init__(self, usage: Usage) -> None:
        super().__init__("beyond the model's context window")
        self.usage = usage


async def ask(model: Model, question: str) -> tuple[tuple[str, ...], Usage]:
    """The observations of one answer, as the model wrote them, and what they took.

    Raises `TooLong`, `CallFailed` with the usage of every try, or `EvalscribeError` for what concerns all calls.
    """
    messages: tuple[Message, ...] = (Message(role="user", text=question),)
    usage, problem = Usage(), ""
    for _ in range(TRIES):
        try:
            reply = await model.complete(Request(system="", messages=messages, max_tokens=ANSWER_TOKENS))
        except CallFailed as error:
            raise CallFailed(error.reason, usage + error.usage, free=error.free and not usage.calls) from error
        usage += reply.usage
        if reply.stop == "context_exceeded":
            raise TooLong(usage)
        if reply.stop == "refusal":
            raise CallFailed(STOPPED["refusal"], usage)
        answer = read_answer(reply.text, _shape())
        if isinstance(answer, dict):
            return tuple(text for text in map(str.strip, answer["observations"]) if text), usage
        problem = STOPPED.get(reply.stop) or "; ".join(answer)
        again = f"That answer cannot be used: {problem}. Answer again, shorter if it was cut off, as you were told to."
        messages = (
            *messages,
            Message(role="assistant", text=reply.text or "(nothing)", raw=reply.raw),
            Message(role="user", text=again),
        )
    raise CallFailed(f"no usable answer: {problem}", usage)


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
