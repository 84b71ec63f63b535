"""A prompt with its references filled in: the text a model is shown, and the items that it can cite."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evalscribe.ids import content_id
from evalscribe.judging.requests.shown import one_transcript, result_item, run_items, transcripts_of
from evalscribe.judging.subject.item import Item, Subject
from evalscribe.model.record import Record
from evalscribe.model.result import AgentRunRef, Ref, Result, Segment

Known = Mapping[Ref, Record | Result]
"""What each reference leads to; a record of a transcript has only this one."""


@dataclass(frozen=True)
class Question:
    """What is asked, in full."""

    text: str
    """The texts as they were given; what references lead to between delimiters, at its second place as `[R0]`."""
    subject: Subject
    """What can be cited."""

    @classmethod
    def of(cls, segments: Sequence[Segment], known: Known) -> "Question":
        """Raises `KeyError` for a reference that nobody looked up."""
        parts = tuple(_Namer(known).parts(segments))
        subject = _subject(parts)
        return cls(text=_joined(parts, subject), subject=subject)


@dataclass(frozen=True)
class _Again:
    """Something that was shown before."""

    mark: str


_Part = str | _Again | tuple[Item, ...]


class _Namer:
    """Gives every item of a prompt a mark of its own."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._marks: dict[object, str] = {}
        self._runs = self._transcripts = self._results = 0

    def parts(self, segments: Sequence[Segment]) -> Iterator[_Part]:
        for segment in segments:
            if isinstance(segment, str):
                if segment.strip():
                    yield segment
                continue
            again = self._marks.get(segment) or self._marks.get(segment.id if segment.type == "transcript" else None)
            yield _Again(again) if again else tuple(self._items(segment))

    def _items(self, ref: Ref) -> Iterator[Item]:
        found = self._known[ref]
        if isinstance(found, Result):
            mark = self._marks[ref] = f"A{self._results}"
            self._results += 1
            yield result_item(mark, found)
        elif isinstance(ref, AgentRunRef):
            number, first = self._runs, self._transcripts
            self._runs, self._transcripts = number + 1, first + transcripts_of(found)
            self._marks[ref] = f"R{number}"
            for at, transcript in enumerate(found.transcripts, first):
                self._marks.setdefault(transcript.id, f"T{at}")
            yield from run_items(number, first, found)
        else:
            mark = self._marks[ref] = f"T{self._transcripts}"
            self._transcripts += 1
            yield from one_transcript(mark, found.transcripts[0], found.agent_run)


def _subject(parts: Sequence[_Part]) -> Subject:
    """Its digest covers the texts too, so that nobody who wrote one of them can know the delimiter."""
    items = [item for part in parts if isinstance(part, tuple) for item in part]
    subject = Subject.of("prompt", items)
    texts = [part for part in parts if isinstance(part, str)]
    return subject.model_copy(update={"digest": content_id([subject.digest, texts])})


def _joined(parts: Sequence[_Part], subject: Subject) -> str:
    """Texts that were written in one go stay so; whatever else meets begins on a line of its own."""
    told = [_told(part, subject) for part in parts]
    text = told[0]
    for (before, part), said in zip(pairwise(parts), told[1:], strict=True):
        text += _gap(before, part, text, said) + said
    return text


def _told(part: _Part, subject: Subject) -> str:
    if isinstance(part, str):
        return part
    return f"[{part.mark}]" if isinstance(part, _Again) else subject.text(part)


def _gap(before: _Part, part: _Part, text: str, said: str) -> str:
    if isinstance(before, tuple) or isinstance(part, tuple):
        return "" if text.endswith("\n") or said.startswith("\n") else "\n"
    if text[-1].isspace() or said[0].isspace():
        return ""
    return " " if isinstance(before, _Again) or isinstance(part, _Again) else "\n\n"
