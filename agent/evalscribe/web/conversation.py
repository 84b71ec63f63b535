"""Convert the transcripts of agent runs to messages for `conversation.html.j2`."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from evalscribe.model.transcript import ARGUMENT, TEXT, TranscriptTurn, TurnKind, parse_transcript
from evalscribe.text import cut, one_line
from evalscribe.web.documents import LineBlock, LineSpan, PagedDocument, ShownLine

FOLDED_LINES, FOLDED_CHARACTERS = 12, 1_500
"""Maximum lines and characters of a tool call, a tool result or reasoning that is not folded.

Longer texts are folded until the reader opens them.
"""
SPOKEN_LINES, SPOKEN_CHARACTERS = 80, 8_000
"""Maximum lines and characters of a message from the user or the model that is not folded.

Longer messages are folded until the reader opens them.
"""
PREVIEW = 80
"""Maximum number of characters that remain visible of a folded text."""
TURN_LINES = 60
"""Maximum lines of one turn in an excerpt."""
EXCERPT_START, EXCERPT_END, EXCERPT_AROUND = 2, 4, 2
"""Number of turns in an excerpt: at the start, at the end, and on each side of a marked or cited message."""


@dataclass(frozen=True)
class ConversationPart:
    """One text of a message: speech, reasoning, a tool call or a tool's answer."""

    kind: TurnKind
    name: str | None
    """Name of the tool that is called or that answers."""
    blocks: Sequence[LineBlock]
    """The text as lines with their numbers."""
    header: ShownLine | None
    """The line of the transcript that begins the part; None if the part does not include that line."""
    hidden: int
    """Number of lines that are left out at the end of the text."""
    hidden_page: int | None
    """Number of the document's page that contains the first hidden line."""
    lines: int
    folded: bool

    @property
    def preview(self) -> str:
        """The first characters of the text."""
        first = next((line.text for block in self.blocks for line in block.lines), "")
        return cut(one_line(first[:PREVIEW]), PREVIEW)


@dataclass(frozen=True)
class ConversationMessage:
    """A message with its number, its role and its texts."""

    number: int
    role: str
    parts: Sequence[ConversationPart]
    id: str | None = None
    mark: str | None = None
    """Reason why the message is marked, such as `the run went wrong here`; None if it is not marked."""
    skipped: int = 0
    """Number of messages that are left out between the previously shown message and this one."""
    skipped_page: int | None = None


def _is_long(role: str, kind: TurnKind, lines: int, characters: int) -> bool:
    if kind == "says" and role in ("user", "assistant"):
        return lines > SPOKEN_LINES or characters > SPOKEN_CHARACTERS
    return lines > FOLDED_LINES or characters > FOLDED_CHARACTERS


class RecordedConversation:
    """The messages of a transcript document. Each line has an anchor."""

    def __init__(self, document: PagedDocument, turns: Sequence[TranscriptTurn], marks: Mapping[int, str]) -> None:
        """Store the arguments.

        Args:
            document: The document that contains the transcript.
            turns: Turns of the transcript; at least one.
            marks: Reason for each message to mark, keyed by message number.
        """
        self._document = document
        self._turns = turns
        self._firsts = [turn.first for turn in turns]
        self._marks = marks

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(turn.number for turn in self._turns)

    @property
    def count(self) -> int:
        return len(self.numbers)

    @property
    def base(self) -> str:
        """Beginning of every message's anchor. The message's number is appended to it."""
        return f"{self._document.base.removesuffix('L')}message-"

    @cached_property
    def page_starts(self) -> Sequence[int]:
        """For each page of the document, the number of the first message that starts on that page or on a later one."""
        indices = (bisect_left(self._firsts, line) for line in self._document.page_starts)
        return [self._turns[min(at, len(self._turns) - 1)].number for at in indices]

    def excerpt(self) -> Sequence[LineSpan]:
        """Return the spans of an excerpt: the start, the end, and marked and cited messages with context."""
        turns = self._turns
        shown = {*range(EXCERPT_START), *range(len(turns) - EXCERPT_END, len(turns))}
        marked = [at for at, turn in enumerate(turns) if turn.number in self._marks]
        cited = [self._index(n) for n in self._document.cited]
        for at in (*marked, *cited):
            shown.update(range(at - EXCERPT_AROUND, at + EXCERPT_AROUND + 1))
        ranges = [
            (turns[at].first, min(turns[at].last, turns[at].first + TURN_LINES))
            for at in sorted(shown)
            if 0 <= at < len(turns)
        ]
        around = [
            (max(turn.first, n - 5), min(turn.last, n + 5))
            for n, turn in ((n, turns[self._index(n)]) for n in self._document.cited)
        ]
        return self._document.spans([*ranges, *around], near=0)

    def messages(self, spans: Iterable[LineSpan], *, clip: bool = False) -> Iterator[ConversationMessage]:
        """Yield the messages within the given spans of the document.

        If `clip` is true, very long lines are shortened.
        """
        pieces: dict[int, list[LineSpan]] = {}
        for span in spans:
            for at in self._turns_of(span):
                turn = self._turns[at]
                first, end = max(span.first, (turn.first, 0)), min(span.end, (turn.last + 1, 0))
                if first < end:
                    pieces.setdefault(at, []).append(LineSpan(first, end))
        before: int | None = None
        anchored: set[int] = set()
        grouped = groupby(pieces, lambda at: (self._turns[at].number, self._turns[at].role))
        for (number, role), members in grouped:
            indices = list(members)
            skipped = indices[0] if before is None else indices[0] - before - 1
            missing = self._turns[0 if before is None else before + 1]
            yield ConversationMessage(
                number,
                role,
                tuple(self._turn_part(self._turns[at], pieces[at], clip) for at in indices),
                id=None if number in anchored else f"{self.base}{number}",
                mark=self._marks.get(number),
                skipped=self._messages_between(before, indices[0]) if clip and skipped else 0,
                skipped_page=self._document.page_of(missing.first) if clip and skipped else None,
            )
            before = indices[-1]
            anchored.add(number)

    def _messages_between(self, before: int | None, after: int) -> int:
        start = 0 if before is None else before + 1
        return len({turn.number for turn in self._turns[start:after]})

    def _turns_of(self, span: LineSpan) -> range:
        return range(self._index(span.first[0]), self._index(span.end[0]) + 1)

    def _index(self, line: int) -> int:
        """Return the index of the turn that contains a line; 0 for the lines before the first turn."""
        return max(0, bisect_right(self._firsts, line) - 1)

    def _turn_part(self, turn: TranscriptTurn, spans: Sequence[LineSpan], clip: bool) -> ConversationPart:
        document = self._document
        header: ShownLine | None = None
        texts: list[LineBlock] = []
        indent = ARGUMENT if turn.kind == "calls" else TEXT
        after = turn.first + 1
        for span in spans:
            if span.first == (turn.first, 0):
                header = document.blocks([LineSpan(span.first, (turn.first + 1, 0))])[0].lines[0]
                span = LineSpan((turn.first + 1, 0), span.end)
            if span.first >= span.end:
                continue
            skipped = max(0, span.first[0] - after) if clip else 0
            page = document.page_of(after) if skipped else None
            rows = [line for block in document.blocks([span], clip=clip) for line in block.lines]
            texts.append(LineBlock([_unindented(line, indent) for line in rows], skipped, page))
            after = span.end[0]
        hidden = turn.last + 1 - after if clip else 0
        lines = [line for block in texts for line in block.lines]
        is_marked = turn.number in self._marks or any("cited" in line.kind for line in lines)
        return ConversationPart(
            turn.kind,
            name=turn.name,
            blocks=texts,
            header=header,
            hidden=hidden,
            hidden_page=document.page_of(after) if hidden else None,
            lines=turn.last - turn.first,
            folded=not is_marked and _is_long(turn.role, turn.kind, len(lines), sum(len(line.text) for line in lines)),
        )


def _unindented(line: ShownLine, indent: str) -> ShownLine:
    if line.n is None or not line.text.startswith(indent):
        return line
    return ShownLine(line.n, line.text.removeprefix(indent), line.id, line.also, line.kind, line.href, line.hidden)


def recorded_turns(text: str) -> Sequence[TranscriptTurn]:
    """Return the turns of a transcript's text.

    Returns no turns if the text has another format, or if it begins with anything other than a turn.
    """
    turns = parse_transcript(text)
    # `parse_transcript` finds turns in any text with lines that look like turns.
    return turns if turns and turns[0].first == 1 else ()
