"""Read a subject in parts if it exceeds the context window, and condense it to observations.

Citations in observations are resolved in the whole subject, so a judge that repeats such a citation cites the subject
and not the observation. If a part cannot be read, the judge is informed of this gap.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from evalscribe.ids import Frozen, content_id
from evalscribe.judging.citations import resolve_citations
from evalscribe.judging.prompt_text import BYTES_PER_TOKEN, estimate_tokens
from evalscribe.judging.rollout import RubricConversation
from evalscribe.judging.subjects import Subject, SubjectItem
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.chat import CallFailed, Message, Request, Usage
from evalscribe.model.protocols import Model
from evalscribe.model.result import CitationTarget, ResolvedCitation
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts

T = TypeVar("T")
DELIMITERS = 60
"""Estimated tokens of the delimiters around one item."""
LINE_NUMBER = 3
"""Estimated tokens of a line number."""
LEAST = 200
"""Minimum size of a part in tokens. Parts are never split below this size."""


class ItemSpan(NamedTuple):
    """A span of one item: the text from offset `start` to offset `end`.

    `item` is the index of the item, and `first` is the number of the span's first line.
    """

    item: int
    start: int
    end: int
    first: int


Part = tuple[ItemSpan, ...]


def split_items(items: Sequence[SubjectItem], room: int) -> Iterator[Part]:
    """Split the items into parts of at most `room` tokens, in order. Every character of the items is in one part."""
    room = max(room, LEAST)
    return fill_parts(_spans(items, room), room)


def fill_parts(sized: Iterable[tuple[T, int]], room: int, most: int | None = None) -> Iterator[tuple[T, ...]]:
    """Distribute values over parts, in order. A part has at most `room` tokens and at most `most` values.

    A value with more than `room` tokens gets a part of its own.
    """
    part: list[T] = []
    remaining = room
    for value, size in sized:
        if part and (size > remaining or len(part) == most):
            yield tuple(part)
            part, remaining = [], room
        part.append(value)
        remaining -= size
    if part:
        yield tuple(part)


def cut_item(items: Sequence[SubjectItem], span: ItemSpan) -> SubjectItem:
    """Return the part of an item that a span covers. If the span covers the whole item, return the item itself."""
    item = items[span.item]
    if (span.start, span.end) == (0, len(item.text)):
        return item
    extent = f"characters {span.start + 1} to {span.end} of {len(item.text)}"
    about = f"{item.about}, {extent}" if item.about else extent
    text = item.text[span.start : span.end]
    text = text.removesuffix("\n") if span.end < len(item.text) else text
    return item.model_copy(update={"text": text, "first": span.first, "about": about, "labels": _labels(item, span)})


def _labels(item: SubjectItem, span: ItemSpan) -> tuple[tuple[int, str], ...]:
    """Return the labels inside a span of an item, and the label of the part in which the span starts."""
    earlier_labels = [label for at, label in item.labels if at < span.start]
    inner_labels = [(at - span.start, label) for at, label in item.labels if span.start <= at < span.end]
    continues = earlier_labels and not (inner_labels and inner_labels[0][0] == 0)
    return ((0, earlier_labels[-1]), *inner_labels) if continues else tuple(inner_labels)


def _spans(items: Sequence[SubjectItem], room: int) -> Iterator[tuple[ItemSpan, int]]:
    """Split the items into spans that each fit in a part. Yield each span with its estimated number of tokens."""
    for index, item in enumerate(items):
        # Even with a long description, half of the room is left for the text.
        head = min(DELIMITERS + estimate_tokens(item.about), room // 2)
        start, first, unfinished = 0, item.first, True
        while unfinished:
            end = _end(item, start, room - head)
            yield ItemSpan(index, start, end, first), head + _weight(item.text[start:end], item.numbered)
            first += item.text.count("\n", start, end)
            start, unfinished = end, end < len(item.text)


def _end(item: SubjectItem, start: int, room: int) -> int:
    """Return the offset at which a span from `start` with at most `room` tokens ends.

    The span ends at the end of the item or, if the item does not fit, after the last line that fits. If no line fits,
    the span ends within a line.
    """
    end = min(len(item.text), start + room * BYTES_PER_TOKEN)
    # Tokens are estimated from bytes and line numbers, so a text of many lines, or with several bytes per character,
    # can still be too long. Each cut removes at least one character, so that the loop ends.
    while end - start > 1 and (weight := _weight(item.text[start:end], item.numbered)) > room:
        end = start + max(1, min(end - start - 1, (end - start) * room // weight))
    if end == len(item.text):
        return end
    line_end = item.text.rfind("\n", start, end)
    return line_end + 1 if line_end > start else end


def _weight(text: str, numbered: bool) -> int:
    return estimate_tokens(text) + (LINE_NUMBER * (text.count("\n") + 1) if numbered else 0)


ANSWER_TOKENS = 8192
"""Maximum tokens of one answer. In a small context window, `ANSWER_SHARE` sets a lower limit."""
NOT_THERE = "(citation not found)"
UNVERIFIED = "(unverified) "
SCHEMA = {
    "type": "object",
    "properties": {"observations": {"type": "array", "items": {"type": "string", "citations": True}}},
    "required": ["observations"],
    "additionalProperties": False,
}


class PartTooLong(Exception):
    """Raised if a prompt exceeds the provider's limit although it was estimated to fit.

    The part that the prompt shows must be split.
    """

    def __init__(self, usage: Usage) -> None:
        super().__init__("beyond the model's context window")
        self.usage = usage


async def ask_observations(
    model: Model, question: str, subject: Subject, max_tokens: int
) -> tuple[tuple[str, ...], Usage]:
    """Ask a model for observations. Return the observations as the model wrote them, together with the usage.

    Raises `PartTooLong` if the prompt is too long, `CallFailed` with the usage of all tries if there is no answer, and
    `EvalscribeError` for errors that affect all calls.
    """
    opening = Request(system="", messages=(Message(role="user", text=question),), max_tokens=max_tokens)
    answer = await RubricConversation(model, opening, _observation_rubric(), subject).run(None)
    if answer.output is not None:
        return tuple(text for text in map(str.strip, answer.output["observations"]) if text), answer.usage
    if answer.too_long:
        raise PartTooLong(answer.usage)
    raise CallFailed(answer.reason or "no answer", answer.usage)


@cache
def _observation_rubric() -> Rubric:
    """Return a rubric whose output is a list of observations.

    With this rubric, observations are parsed like any other answer.
    """
    return Rubric(id="observations", rubric_text="Observe.", output_schema=SCHEMA)


def check_observations(texts: Iterable[str], subject: Subject) -> tuple[str, ...]:
    """Check the citations in observations.

    Each unverified citation is replaced by `(citation not found)`. Each observation without a verified citation gets
    the prefix `(unverified)`.
    """
    return tuple(_check_observation(text, subject) for text in texts)


def _check_observation(text: str, subject: Subject) -> str:
    # A model that merges observations can copy the prefix of an unverified one.
    text = text.removeprefix(UNVERIFIED)
    citations = resolve_citations(text, subject).citations
    verified = [citation for citation in citations if citation.status != "unverified"]
    # Starting at the end keeps the offsets of the remaining citations valid.
    for start, end in reversed(_unverified_spans(citations, verified)):
        text = text[:start] + NOT_THERE + text[end:]
    return text if verified else UNVERIFIED + text


def _unverified_spans(
    citations: Iterable[ResolvedCitation], verified: Sequence[ResolvedCitation]
) -> list[tuple[int, int]]:
    """Return the spans of all unverified citations that do not overlap a verified citation in the same brackets."""
    spans = {(citation.start_idx, citation.end_idx) for citation in citations if citation.status == "unverified"}
    separate = [
        (a, b) for a, b in spans if not any(citation.start_idx < b and a < citation.end_idx for citation in verified)
    ]
    return sorted(separate)


OBSERVE_TEMPLATE = "judging/observe.md.j2"
QUESTION_TOKENS = 800
"""Estimated tokens of the question, without the rubric, the part and the citation instructions."""
CONCURRENT_PARTS = 4
"""Maximum number of parts that are read concurrently."""
LONGEST_PART = 100_000
"""Maximum tokens of one part.

The limit also applies in a large context window, because models read longer parts less closely.
"""
ANSWER_SHARE = 0.25
"""Maximum share of the context window for an answer."""
MARGIN = 0.8
"""Share of the available tokens that is used. The rest is a reserve, because numbers of tokens are only estimated."""
MAX_OBSERVATIONS = 40
"""Maximum number of observations about one part."""
TOO_LONG = "beyond the model's context window"


class PartReader:
    """Asks a model for observations about each part of a subject. Citations are checked against the whole subject."""

    def __init__(
        self, subject: Subject, rubric: Rubric, model: Model, prompts: Prompts, window: int | None = None
    ) -> None:
        """Initialise the reader.

        `window`: upper limit for the model's context window in tokens. Raises `CallFailed` if the rubric alone fills
        the window.
        """
        self.rubric = rubric
        self.prompts = prompts
        self.usage = Usage()
        self.parts = 0
        self.lost: list[str] = []
        """Descriptions of observations that could not be merged or were left out, one line each."""
        self._subject = subject
        self._model = model
        self._window = min(model.context_tokens, window or model.context_tokens)
        self.answer_tokens = min(ANSWER_TOKENS, int(ANSWER_SHARE * self._window))
        """Maximum tokens of one answer."""
        self.room = self._part_room()
        """Maximum tokens of one part. The limit is lowered when a part turns out to be too long."""
        self._unread: list[tuple[int, str, str]] = []
        """For each unread part: its number, the marks of its items, and the reason why it was not read."""
        self._read = self._too_long = self._hopeless = False
        """Whether a part was read, whether a part was too long, and whether even the smallest parts are too long."""

    @property
    def gaps(self) -> tuple[str, ...]:
        unread = (
            f"part {number} of {self.parts} ({marks}) could not be read: {reason}"
            for number, marks, reason in sorted(self._unread)
        )
        return (*unread, *self.lost)

    async def observe(self) -> tuple[str, ...]:
        """Return the observations of all parts, in the subject's order.

        Raises `CallFailed` if no part could be read.
        """
        observations: dict[int, tuple[str, ...] | None] = {}
        items, room = self._subject.items, self.room

        async def read_part(numbered: tuple[int, Part]) -> None:
            number, part = numbered
            observations[number] = await self._observe(tuple(cut_item(items, span) for span in part), number, room)

        await run_concurrently(enumerate(split_items(items, room), 1), read_part, CONCURRENT_PARTS)
        self.parts = len(observations)
        if not any(texts is not None for texts in observations.values()):
            reasons = Counter(reason for _, _, reason in self._unread)
            reason = reasons.most_common(1)[0][0] if reasons else "the subject is empty"
            raise CallFailed(f"none of {self.parts} parts could be read: {reason}", self.usage)
        return tuple(text for number in sorted(observations) for text in observations[number] or ())

    async def ask(self, question: str, room: int) -> tuple[str, ...]:
        """Ask for observations with at most `room` tokens. Check their citations, and return the observations.

        Raises `PartTooLong` if the prompt is too long, and `CallFailed` if there is no answer. Usage is counted
        even if one of these errors is raised.
        """
        try:
            texts, usage = await ask_observations(self._model, question, self._subject, min(self.answer_tokens, room))
        except (PartTooLong, CallFailed) as error:
            self.usage += error.usage
            raise
        self.usage += usage
        return check_observations(texts, self._subject)

    def render_items(self, items: Sequence[SubjectItem]) -> str:
        """Render items between delimiters, in the form in which a judge sees them."""
        return Subject.of(self._subject.id, items).text()

    async def _observe(self, items: tuple[SubjectItem, ...], number: int, room: int) -> tuple[str, ...] | None:
        """Return the observations about some items. Return None if none of the items could be read."""
        if room > self.room:
            # The limit was lowered after this part was planned, because another part was too long.
            return await self._observe_smaller_parts(items, number, self.room)
        if self._hopeless:
            self._unread.append((number, _mark_range(items), TOO_LONG))
            return None
        question = self.prompts.render(
            OBSERVE_TEMPLATE,
            number=number,
            rubric=self.rubric.rubric_text,
            part=self.render_items(items),
            citation_help=self._subject.citation_help,
            most=MAX_OBSERVATIONS,
        )
        try:
            texts = await self.ask(question, room)
        except PartTooLong:
            self._too_long = True
            if room > 2 * LEAST:
                return await self._observe_smaller_parts(items, number, room // 2)
            # If not even the smallest part can be read, every further call would fail in the same way.
            self._hopeless = not self._read
            self._unread.append((number, _mark_range(items), TOO_LONG))
        except CallFailed as error:
            self._unread.append((number, _mark_range(items), error.reason))
        else:
            self._read = True
            # Once a part was too long, no later part may be larger than a part that was read.
            self.room = min(self.room, room) if self._too_long else self.room
            return texts
        return None

    async def _observe_smaller_parts(
        self, items: tuple[SubjectItem, ...], number: int, room: int
    ) -> tuple[str, ...] | None:
        results = [
            await self._observe(tuple(cut_item(items, span) for span in part), number, room)
            for part in split_items(items, room)
        ]
        successes = [texts for texts in results if texts is not None]
        return tuple(text for texts in successes for text in texts) if successes else None

    def _part_room(self) -> int:
        overhead = (
            estimate_tokens(self.rubric.rubric_text) + estimate_tokens(self._subject.citation_help) + QUESTION_TOKENS
        )
        room = int(MARGIN * (self._window - self.answer_tokens - overhead))
        if room < LEAST:
            raise CallFailed(
                f"the rubric leaves no room for the subject in the model's window of {self._window} tokens", free=True
            )
        return min(room, LONGEST_PART)


def observation_item(mark: str, texts: Iterable[str], about: str = "") -> SubjectItem:
    """Return a list of observations or gaps as one item. No item of the subject may have the same mark."""
    target = CitationTarget(kind="result", item=mark)
    return SubjectItem(mark=mark, about=about, text="\n".join(f"- {text}" for text in texts), target=target)


def _mark_range(items: Sequence[SubjectItem]) -> str:
    first, last = items[0].mark, items[-1].mark
    return first if first == last else f"{first} to {last}"


MERGE_TEMPLATE = "judging/merge.md.j2"
ROUNDS = 6
"""Maximum number of merging rounds. Observations that do not fit after the last round are left out."""
PROGRESS = 0.95
"""If more than this share of the tokens remains after a merging round, no further round follows."""
WORDS_PER_TOKEN = 0.5
"""Assumed words per token in observations. Prose has more words per token, but citations take many tokens."""


async def merge_observations(reader: PartReader, observed: tuple[str, ...], room: int) -> tuple[str, ...]:
    """Merge observations until they have at most `room` tokens.

    Observations that still do not fit are left out, and the reader records the omission as a gap.
    """
    for _ in range(ROUNDS):
        tokens_before = total_tokens(observed)
        if tokens_before <= room:
            return observed
        observed = await _round(reader, observed, room)
        if total_tokens(observed) > PROGRESS * tokens_before:
            break
    return _drop_excess(reader, observed, room)


def total_tokens(texts: Iterable[str]) -> int:
    return sum(estimate_tokens(text) + 1 for text in texts)


async def _round(reader: PartReader, observed: Sequence[str], room: int) -> tuple[str, ...]:
    """Merge neighbouring observations in batches. The merged text of each batch must fit in one answer."""
    shrink = MARGIN * room / total_tokens(observed)
    longest = min(reader.room, int(MARGIN * reader.answer_tokens / shrink))
    merged: dict[int, tuple[str, ...]] = {}

    async def join(numbered: tuple[int, tuple[str, ...]]) -> None:
        number, batch = numbered
        words = max(1, int(total_tokens(batch) * shrink * WORDS_PER_TOKEN))
        merged[number] = await _merge_batch(reader, batch, words)

    await run_concurrently(enumerate(_batches(observed, longest)), join, CONCURRENT_PARTS)
    return tuple(text for number in sorted(merged) for text in merged[number])


async def _merge_batch(reader: PartReader, batch: tuple[str, ...], words: int) -> tuple[str, ...]:
    """Merge a batch of observations. Return the batch unchanged if the model returns nothing or the call fails."""
    part = reader.render_items((observation_item("observations", batch),))
    question = reader.prompts.render(MERGE_TEMPLATE, rubric=reader.rubric.rubric_text, part=part, words=words)
    try:
        return await reader.ask(question, reader.answer_tokens) or batch
    except (PartTooLong, CallFailed) as error:
        reason = TOO_LONG if isinstance(error, PartTooLong) else error.reason
        reader.lost.append(f"{len(batch)} observations could not be merged: {reason}")
        return batch


def _drop_excess(reader: PartReader, observed: Sequence[str], room: int) -> tuple[str, ...]:
    """Return the observations that fit in `room` tokens. Observations with verified citations take precedence."""
    fitting_indexes: set[int] = set()
    for index in sorted(range(len(observed)), key=lambda index: observed[index].startswith(UNVERIFIED)):
        size = total_tokens((observed[index],))
        if size <= room:
            fitting_indexes.add(index)
            room -= size
    if len(fitting_indexes) < len(observed):
        omitted_count = len(observed) - len(fitting_indexes)
        reader.lost.append(f"{omitted_count} of {len(observed)} observations were left out for want of room")
    return tuple(observed[index] for index in sorted(fitting_indexes))


def _batches(observed: Iterable[str], room: int) -> Iterator[tuple[str, ...]]:
    """Put neighbouring observations in batches of at most `room` tokens.

    An observation of more than `room` tokens gets a batch of its own.
    """
    batch: list[str] = []
    remaining = room
    for text in observed:
        size = total_tokens((text,))
        if batch and size > remaining:
            yield tuple(batch)
            batch, remaining = [], room
        batch.append(text)
        remaining -= size
    if batch:
        yield tuple(batch)


HEADING = "too long to be shown, read in {parts} parts: cite the places that the observations cite, as they cite them"
NOTHING = "nothing that matters to the rubric was observed"
AROUND = 150
"""Estimated tokens of the headings and delimiters around the observations."""


class CondensedSubject(Frozen):
    """Observations and gaps that are shown in place of a subject that is too long for a judge's prompt."""

    subject: Subject
    """Observations and gaps as items. Citations in observations and in judges' answers refer to the whole subject."""
    usage: Usage
    """Usage of all reading and merging so far."""
    parts: int
    gaps: tuple[str, ...] = ()
    """Descriptions of unread parts and omitted observations, one line each."""


class SubjectReading:
    """Reads a long subject once, and condenses it to observations of any requested size."""

    def __init__(
        self, subject: Subject, rubric: Rubric, model: Model, prompts: Prompts, window: int | None = None
    ) -> None:
        """Prepare to read with `model`. `window`: upper limit for the model's context window.

        Raises `CallFailed` if the rubric alone fills the window.
        """
        self._subject = subject
        self._reader = PartReader(subject, rubric, model, prompts, window)
        self._read_by = reader_digest(model, prompts)
        self._observed: tuple[str, ...] | None = None

    async def condensed(self, room: int) -> CondensedSubject:
        """Return the relevant observations, condensed to about `room` tokens.

        Only the first call reads the subject. Later calls merge the observations further if they must be shorter.
        Raises `CallFailed` if nothing could be read, and `EvalscribeError` for errors that affect all calls.
        """
        reader = self._reader
        if self._observed is None:
            self._observed = await reader.observe()
        self._observed = observations = await merge_observations(
            reader, self._observed, max(0, room - AROUND - total_tokens(reader.gaps))
        )
        items = [observation_item("observations", observations or (NOTHING,), HEADING.format(parts=reader.parts))]
        if reader.gaps:
            items.append(observation_item("gaps", reader.gaps))
        subject = Subject.of(self._subject.id, items)
        return CondensedSubject(subject=subject, usage=reader.usage, parts=reader.parts, gaps=reader.gaps)

    @property
    def usage(self) -> Usage:
        """Usage of all reading and merging so far, including calls that failed."""
        return self._reader.usage

    @property
    def metadata(self) -> dict[str, Any]:
        """Description of how the subject was read, for the metadata of results."""
        return {"read_in_parts": self._reader.parts, "gaps": list(self._reader.gaps), "read_by": self._read_by}


def reader_digest(model: Model, prompts: Prompts) -> str:
    """Return the content id of the model and the prompt templates that are used to read parts."""
    return content_id([model.id, *(prompts.source(name) for name in (OBSERVE_TEMPLATE, MERGE_TEMPLATE))])
