"""One subject before a panel of judges: whole where it fits the model's window, else by what was observed in its parts.

The window may be smaller than it is said to be, and texts denser than estimated: what the model finds too long is put
to it again within half as many tokens.
"""

from dataclasses import dataclass

from evalscribe.judging.rubric.parts import Reading
from evalscribe.judging.rubric.question import asked, tokens_of
from evalscribe.judging.rubric.variants import Decision, Panel, decided, undecided
from evalscribe.judging.subject.item import Subject
from evalscribe.model.chat import CallFailed, Request, Usage
from evalscribe.model.protocols import Model
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts

ANSWERS = 0.5
"""How much of a small window an answer may take."""
LEAST_ROOM = 1_000
"""Tokens of a subject's observations; with less there is nothing to judge."""
LEAST_WINDOW = 2_000
"""Tokens of question and answer; with less nothing is asked."""
NO_ROOM = "the rubric leaves no room for a subject in the model's window"


def whole_request(rubric: Rubric, subject: Subject, max_tokens: int, window: int) -> Request:
    """The question with all of the subject, whether it fits or not."""
    return asked(rubric, subject, min(max_tokens, int(ANSWERS * window)))


def taken(request: Request) -> int:
    """Tokens of the prompt, estimated, and of the longest answer."""
    return tokens_of(request) + request.max_tokens


@dataclass(frozen=True)
class Court:
    """Who decides about every subject."""

    rubric: Rubric
    model: Model
    observer: Model
    """Who reads what is too long for the model."""
    prompts: Prompts


class Hearing:
    """Of one subject; used once."""

    def __init__(self, court: Court, subject: Subject, whole: Request, timeout_s: float | None) -> None:
        """`whole`: the question with all of the subject; `timeout_s` bounds one rollout."""
        self._court = court
        self._subject = subject
        self._whole = whole
        self._timeout_s = timeout_s
        self._reading: Reading | None = None

    async def decide(self) -> Decision:
        """Raises `EvalscribeError` for what concerns all subjects."""
        usage, last, window = Usage(), None, self._court.model.context_tokens
        while last is None or (last.too_long and window >= LEAST_WINDOW):
            try:
                request = await self._request(window)
            except CallFailed as error:
                last = undecided(self._subject, error.reason)
                break
            if request is None:
                last = last or undecided(self._subject, NO_ROOM, final=True)
                break
            panel = Panel(self._court.model, self._court.rubric, self._subject, request, self._timeout_s)
            last = await decided(panel)
            usage, window = usage + last.usage, taken(request) // 2
        return self._told(last, usage)

    async def _request(self, window: int) -> Request | None:
        """A question that fits; None where there is none. Raises `CallFailed` where the subject cannot be read."""
        longest = min(self._whole.max_tokens, int(ANSWERS * window))
        whole = self._whole.model_copy(update={"max_tokens": longest})
        if taken(whole) <= window:
            return whole
        room = window - taken(self._shown(whole, ""))
        if room < LEAST_ROOM:
            return None
        observed = await self._read(window).condensed(room)
        return self._shown(whole, observed.subject.text())

    def _shown(self, whole: Request, text: str) -> Request:
        return asked(self._court.rubric, self._subject, whole.max_tokens, shown=text)

    def _read(self, window: int) -> Reading:
        """Once: a shorter prompt is made of the same observations."""
        if self._reading is None:
            court = self._court
            same = court.observer.id == court.model.id
            self._reading = Reading(
                self._subject, court.rubric, court.observer, court.prompts, window=window if same else None
            )
        return self._reading

    def _told(self, decision: Decision, usage: Usage) -> Decision:
        """The decision, with how its subject was read and all that was consumed."""
        if self._reading is None:
            return decision.model_copy(update={"usage": usage})
        metadata = {**decision.metadata, **self._reading.told}
        return decision.model_copy(update={"metadata": metadata, "usage": usage + self._reading.usage})
