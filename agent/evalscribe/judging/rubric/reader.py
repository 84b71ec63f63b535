"""The parts of one subject being read: what it took so far, and what is missing."""

from collections import Counter
from collections.abc import Iterable, Sequence

from evalscribe.judging.lanes import in_lanes
from evalscribe.judging.rubric.observations import ANSWER_TOKENS, TooLong, ask, checked
from evalscribe.judging.rubric.pieces import LEAST, Part, parts, piece
from evalscribe.judging.subject.item import Item, Subject
from evalscribe.model.chat import CallFailed, Usage
from evalscribe.model.protocols import Model
from evalscribe.model.result import CitationTarget
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts
from evalscribe.tokens import estimate

TEMPLATE = "judging/observe.md.j2"
QUESTION_TOKENS = 800
"""Of the question around rubric, part and how to cite."""
LANES = 4
"""Parts that are read at once."""
LONGEST_PART = 100_000
"""Tokens of one part, however large the window: more is read less closely."""
ANSWERS = 0.25
"""How much of a small window an answer may take."""
MARGIN = 0.8
"""How much of the window is used: tokens are estimated."""
MOST = 40
"""Observations of one part."""
TOO_LONG = "beyond the model's context window"


class Reader:
    """Asks a model about a subject's parts; every observation is checked against the whole subject."""

    def __init__(
        self, subject: Subject, rubric: Rubric, model: Model, prompts: Prompts, window: int | None = None
    ) -> None:
        """`window`: a smaller one than the model's. Raises `CallFailed` where the rubric alone fills it."""
        self.rubric = rubric
        self.prompts = prompts
        self.usage = Usage()
        self.parts = 0
        self.lost: list[str] = []
        """What was left out after reading, one line each."""
        self._subject = subject
        self._model = model
        self._window = min(model.context_tokens, window or model.context_tokens)
        self.answer_tokens = min(ANSWER_TOKENS, int(ANSWERS * self._window))
        """Of one answer, at most."""
        self.room = self._part_room()
        """Tokens of one part; once one was too long, so many as could be read after all."""
        self._unread: list[tuple[int, str, str]] = []
        """Number of the part, what it held, why it could not be read."""
        self._read = self._too_long = self._hopeless = False
        """Whether anything could be read, anything was too long, and the least there is was while nothing was read."""

    @property
    def gaps(self) -> tuple[str, ...]:
        unread = (
            f"part {number} of {self.parts} ({held}) could not be read: {reason}"
            for number, held, reason in sorted(self._unread)
        )
        return (*unread, *self.lost)

    async def observe(self) -> tuple[str, ...]:
        """The observations of all parts, in the order of the subject. Raises `CallFailed` where none could be read."""
        found: dict[int, tuple[str, ...] | None] = {}
        items, room = self._subject.items, self.room

        async def read(numbered: tuple[int, Part]) -> None:
            number, part = numbered
            found[number] = await self._observe(tuple(piece(items, span) for span in part), number, room)

        await in_lanes(enumerate(parts(items, room), 1), read, LANES)
        self.parts = len(found)
        if not any(texts is not None for texts in found.values()):
            reasons = Counter(reason for _, _, reason in self._unread)
            reason = reasons.most_common(1)[0][0] if reasons else "the subject is empty"
            raise CallFailed(f"none of {self.parts} parts could be read: {reason}", self.usage)
        return tuple(text for number in sorted(found) for text in found[number] or ())

    async def ask(self, question: str, room: int) -> tuple[str, ...]:
        """The checked observations of one answer, no longer than `room`.

        Raises `TooLong` or `CallFailed`, its usage counted.
        """
        try:
            texts, usage = await ask(self._model, question, self._subject, min(self.answer_tokens, room))
        except (TooLong, CallFailed) as error:
            self.usage += error.usage
            raise
        self.usage += usage
        return checked(texts, self._subject)

    def shown(self, items: Sequence[Item]) -> str:
        """Items as a judge is shown them: as delimited data."""
        return Subject.of(self._subject.id, items).text()

    async def _observe(self, items: tuple[Item, ...], number: int, room: int) -> tuple[str, ...] | None:
        """None where nothing of it could be read."""
        if room > self.room:
            return await self._smaller(items, number, self.room)
        if self._hopeless:
            self._unread.append((number, _held(items), TOO_LONG))
            return None
        question = self.prompts.render(
            TEMPLATE,
            number=number,
            rubric=self.rubric.rubric_text,
            part=self.shown(items),
            citation_help=self._subject.citation_help,
            most=MOST,
        )
        try:
            texts = await self.ask(question, room)
        except TooLong:
            self._too_long = True
            if room > 2 * LEAST:
                return await self._smaller(items, number, room // 2)
            self._hopeless = not self._read
            self._unread.append((number, _held(items), TOO_LONG))
        except CallFailed as error:
            self._unread.append((number, _held(items), error.reason))
        else:
            self._read = True
            self.room = min(self.room, room) if self._too_long else self.room
            return texts
        return None

    async def _smaller(self, items: tuple[Item, ...], number: int, room: int) -> tuple[str, ...] | None:
        found = [
            await self._observe(tuple(piece(items, span) for span in part), number, room) for part in parts(items, room)
        ]
        read = [texts for texts in found if texts is not None]
        return tuple(text for texts in read for text in texts) if read else None

    def _part_room(self) -> int:
        around = estimate(self.rubric.rubric_text) + estimate(self._subject.citation_help) + QUESTION_TOKENS
        room = int(MARGIN * (self._window - self.answer_tokens - around))
        if room < LEAST:
            raise CallFailed(f"the rubric leaves no room in a window of {self._window} tokens", free=True)
        return min(room, LONGEST_PART)


def item(mark: str, texts: Iterable[str], about: str = "") -> Item:
    """Our own lines as an item; its mark leads nowhere in the subject."""
    target = CitationTarget(kind="result", item=mark)
    return Item(mark=mark, about=about, text="\n".join(f"- {text}" for text in texts), target=target)


def _held(items: Sequence[Item]) -> str:
    first, last = items[0].mark, items[-1].mark
    return first if first == last else f"{first} to {last}"
