"""Observations merged, round by round, until they fit into one prompt."""

from collections.abc import Iterable, Iterator, Sequence

from evalscribe.judging.lanes import in_lanes
from evalscribe.judging.rubric.observations import UNVERIFIED, TooLong
from evalscribe.judging.rubric.reader import LANES, MARGIN, TOO_LONG, Reader, item
from evalscribe.model.chat import CallFailed
from evalscribe.tokens import estimate

TEMPLATE = "judging/merge.md.j2"
ROUNDS = 6
"""How often observations are merged before the last of them are left out."""
PROGRESS = 0.95
"""A round that leaves more than this share of the tokens is the last."""
WORDS_PER_TOKEN = 0.5
"""Of observations: citations take more tokens than prose."""


async def merged(reader: Reader, observed: tuple[str, ...], room: int) -> tuple[str, ...]:
    """The observations in at most `room` tokens; what had to be left out is a gap of the reader's."""
    for _ in range(ROUNDS):
        before = tokens(observed)
        if before <= room:
            return observed
        observed = await _round(reader, observed, room)
        if tokens(observed) > PROGRESS * before:
            break
    return _what_fits(reader, observed, room)


def tokens(texts: Iterable[str]) -> int:
    return sum(estimate(text) + 1 for text in texts)


async def _round(reader: Reader, observed: Sequence[str], room: int) -> tuple[str, ...]:
    """Neighbours together, as many as one answer can hold once they are shorter."""
    shrink = MARGIN * room / tokens(observed)
    longest = min(reader.room, int(MARGIN * reader.answer_tokens / shrink))
    found: dict[int, tuple[str, ...]] = {}

    async def join(numbered: tuple[int, tuple[str, ...]]) -> None:
        number, batch = numbered
        words = max(1, int(tokens(batch) * shrink * WORDS_PER_TOKEN))
        found[number] = await _joined(reader, batch, words)

    await in_lanes(enumerate(_batches(observed, longest)), join, LANES)
    return tuple(text for number in sorted(found) for text in found[number])


async def _joined(reader: Reader, batch: tuple[str, ...], words: int) -> tuple[str, ...]:
    """Fewer observations; the same ones where the model gives none."""
    shown = reader.shown((item("observations", batch),))
    question = reader.prompts.render(TEMPLATE, rubric=reader.rubric.rubric_text, part=shown, words=words)
    try:
        return await reader.ask(question, reader.answer_tokens) or batch
    except (TooLong, CallFailed) as error:
        reason = TOO_LONG if isinstance(error, TooLong) else error.reason
        reader.lost.append(f"{len(batch)} observations could not be merged: {reason}")
        return batch


def _what_fits(reader: Reader, observed: Sequence[str], room: int) -> tuple[str, ...]:
    """Those that cite something first."""
    kept: set[int] = set()
    for index in sorted(range(len(observed)), key=lambda index: observed[index].startswith(UNVERIFIED)):
        size = tokens((observed[index],))
        if size <= room:
            kept.add(index)
            room -= size
    if len(kept) < len(observed):
        lost = len(observed) - len(kept)
        reader.lost.append(f"{lost} of {len(observed)} observations were left out for want of room")
    return tuple(observed[index] for index in sorted(kept))


def _batches(observed: Iterable[str], room: int) -> Iterator[tuple[str, ...]]:
    """Neighbours in batches of at most `room` tokens; a longer observation is alone."""
    batch: list[str] = []
    left = room
    for text in observed:
        size = tokens((text,))
        if batch and size > left:
            yield tuple(batch)
            batch, left = [], room
        batch.append(text)
        left -= size
    if batch:
        yield tuple(batch)
