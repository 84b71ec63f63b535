"""What was said so far, kept within the model's window: reading is forgotten first, then whole questions."""

from evalscribe.ids import canonical_json
from evalscribe.judging.prompt_text import estimate_tokens
from evalscribe.model.chat import Message

BROKEN_OFF = "[broken off]"


class Exchange:
    """One question with everything that followed from it."""

    def __init__(self, question: str) -> None:
        self.question = question
        self.answer = ""
        """Empty until it is done."""
        self.turns: list[Message] = []
        """What followed the question, in full; empty where only the answer is remembered."""

    def messages(self) -> list[Message]:
        asked = Message(role="user", text=self.question)
        if self.turns or not self.answer:
            return [asked, *self.turns]
        return [asked, Message(role="assistant", text=self.answer)]

    @property
    def tokens(self) -> int:
        return estimate_tokens(canonical_json(self.messages()))


class History:
    def __init__(self, opening: str, room: int) -> None:
        """`opening` stands before the first question, `room` is for it and all messages, in tokens."""
        self._opening = opening
        self._room = room
        self._past: list[Exchange] = []

    @property
    def tokens(self) -> int:
        return estimate_tokens(self._opening) + sum(exchange.tokens for exchange in self._past)

    def begin(self, question: str) -> Exchange:
        return Exchange(question)

    def reopen(self, opening: str) -> None:
        """Begin with another opening: what was read before is forgotten, what was said is not."""
        self._opening = opening
        for exchange in self._past:
            exchange.turns = []

    def end(self, exchange: Exchange, answer: str, *, whole: bool) -> None:
        """What was broken off before a word was said is forgotten; of other broken answers the words are kept."""
        if not answer.strip():
            return
        if not whole:
            exchange.turns = []
        exchange.answer = answer.strip() if whole else f"{answer.strip()} {BROKEN_OFF}"
        self._past.append(exchange)

    def messages(self, exchange: Exchange) -> tuple[Message, ...]:
        """All that is remembered, and the question that is being answered."""
        self._make_room(exchange.tokens)
        first, *others = [message for one in (*self._past, exchange) for message in one.messages()]
        return (first.model_copy(update={"text": f"{self._opening}\n\n{first.text}"}), *others)

    def _make_room(self, needed: int) -> None:
        for exchange in self._past:
            if self.tokens + needed <= self._room:
                return
            exchange.turns = []
        while self._past and self.tokens + needed > self._room:
            del self._past[0]
