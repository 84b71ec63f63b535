"""Agent runs in batches that a model can read at once, and what it is shown of one."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from evalscribe.judging.requests.shown import run_items, transcripts_of
from evalscribe.judging.rubric.pieces import DELIMITERS, LEAST
from evalscribe.judging.rubric.reader import LONGEST_PART, MARGIN
from evalscribe.judging.subject.item import Item, Subject
from evalscribe.model.exploration import Member
from evalscribe.model.record import Record
from evalscribe.model.result import CitationTarget
from evalscribe.tokens import estimate

LONGEST_ANSWER, ANSWERS = 16_384, 0.5
"""Tokens of an answer, and how much of a small window they may be."""
QUESTION_TOKENS = 1500
"""Of what stands around a batch."""
MOST_TOGETHER = 12
"""Agent runs of one batch: of more a model tells only what most have in common."""
_MARK = re.compile(r"([TR])(\d+)")


def room_of(window: int) -> int:
    """Tokens of one batch, so that it is read whole."""
    answer = min(LONGEST_ANSWER, int(ANSWERS * window))
    return max(LEAST, min(int(MARGIN * (window - answer - QUESTION_TOKENS)), LONGEST_PART))


def size(record: Record) -> int:
    """Tokens of an agent run as it is shown, estimated."""
    return sum(estimate(item.text) + estimate(item.about) + DELIMITERS for item in run_items(0, 0, record))


def packed(together: Iterable[tuple[Member, Record]], room: int) -> Iterator[tuple[tuple[Member, Record], ...]]:
    """Each agent run in one batch, in order; a longer one is alone, and its judge reads it in parts."""
    batch: list[tuple[Member, Record]] = []
    left = room
    for member, record in together:
        tokens = size(record)
        if batch and (tokens > left or len(batch) == MOST_TOGETHER):
            yield tuple(batch)
            batch, left = [], room
        batch.append((member, record))
        left -= tokens
    if batch:
        yield tuple(batch)


@dataclass(frozen=True)
class Shown:
    """A batch as a model is shown it: runs `R0`, `R1` …, their transcripts `T0`, `T1` … counted through."""

    members: tuple[Member, ...]
    subject: Subject
    starts: tuple[int, ...]
    """Number of the first transcript of each."""

    @classmethod
    def of(cls, together: Sequence[tuple[Member, Record]]) -> "Shown":
        items: list[Item] = []
        starts = [0]
        for number, (_, record) in enumerate(together):
            items += run_items(number, starts[-1], record)
            starts.append(starts[-1] + transcripts_of(record))
        members = tuple(member for member, _ in together)
        return cls(members, Subject.of("exploration", items), tuple(starts[:-1]))

    def member(self, target: CitationTarget) -> Member | None:
        number = self._numbers.get(target.agent_run_id or "")
        return None if number is None else self.members[number]

    def place(self, target: CitationTarget) -> str:
        """Where in its own run: `T0B3`, however many transcripts other runs of the batch have."""
        if target.kind == "document" and target.role:
            return f"{target.role} {target.path}"
        start = self.starts[self._numbers[target.agent_run_id or ""]]
        return _MARK.sub(lambda mark: f"T{int(mark[2]) - start}" if mark[1] == "T" else "R0", target.item, count=1)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {member.id: number for number, member in enumerate(self.members)}
