"""How a heading, a list item or a cell begins: with which evals, which label, which step."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evalscribe.recall.blocks import Line, Span, plain
from evalscribe.recall.words import LABEL, STEPS, SUPERSEDED, Label, is_label, is_marked_name, is_name, label_in

SEPARATOR = re.compile(r"\s+-{1,3}>?\s+|\s*[—–→⇒|·•;,]\s*|:\s+|:$")
ORDINAL = re.compile(r"^(?:[^\w`(\[/@]+|[(\[]?#?\d{1,5}[.):\]]+(?=\s|$)|#\d+(?=\s|$))\s*")
LEAD_WORD = re.compile(
    r"^(?:eval|evaluation|failure|failed|case|finding|issue|test|task)\s*(?:#?\d+)?\s*:?$", re.IGNORECASE
)
REMARK = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]")
JOINER = re.compile(r"\s+(?:and|und|&|\+)\s+|\s*,\s*")
MAX_LEAD = 400


@dataclass(frozen=True, slots=True)
class Named:
    """An eval as named: `category` where a parenthesis says it."""

    name: str
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class Lead:
    evals: tuple[Named, ...] = ()
    label: Label | None = None
    step: str | None = None
    segments: tuple[str, ...] = ()
    """What else stands between separators after the evals: a rate, a reason."""
    unsure: bool = False
    """Whether the eval is a plain word, that only a label makes one."""


@dataclass(slots=True)
class _Segment:
    text: str
    remarks: tuple[str, ...]
    styled: bool


def lead(line: Line, whole: bool) -> Lead:
    """What a line begins with. `whole`: a heading, whose label may stand at its end."""
    told = _Told(whole)
    for segment in _segments(line):
        told.take(segment)
        if told.rest and not whole:
            break
    if told.is_plain_word and (told.label or ORDINAL.match(plain(line))):
        word, *others = told.rest
        return Lead((Named(word, told.remark),), told.label, next(iter(others), None), tuple(others[1:]), unsure=True)
    label = told.label or _closing_label(line, bool(told.evals))
    return Lead(tuple(told.evals), label, told.step, tuple(told.rest))


@dataclass(slots=True)
class _Told:
    """What the segments of a line have told so far."""

    whole: bool
    evals: list[Named] = field(default_factory=list)
    label: Label | None = None
    step: str | None = None
    remark: str | None = None
    """What stands in parentheses behind the first of the rest."""
    rest: list[str] = field(default_factory=list)

    def take(self, segment: _Segment) -> None:
        words, said = _label_and_rest(segment)
        names = () if self.rest else _names(words, segment)
        if said and (names or (not words and (self.whole or not self.rest))):
            self.label = self.label or said
        if names:
            self.evals.extend(names)
        elif self.evals and not self.rest and not words and not said:
            self._add_remark(segment)
        elif self.evals and not self.rest and self.step is None and _is_step(words, self.whole):
            self.step = words
        elif words and not LEAD_WORD.match(words):
            self.remark = self.remark if self.rest else next(iter(segment.remarks), None)
            self.rest.append(words)

    def _add_remark(self, segment: _Segment) -> None:
        """`**003-crons** (basics)`: the parenthesis stands outside the name's emphasis."""
        last = self.evals[-1]
        self.evals[-1] = Named(last.name, last.remark or next(iter(segment.remarks), None))

    @property
    def is_plain_word(self) -> bool:
        """Whether a heading begins with a word that could be an eval's name and looks like none."""
        return bool(self.whole and not self.evals and self.rest and is_name(self.rest[0]) and self.rest[0].islower())


def _is_step(words: str, whole: bool) -> bool:
    """A word that is known as a step; in a heading any word or two behind the eval."""
    return words.lower() in STEPS or (whole and 0 < len(words.split()) <= 3)


def _segments(line: Line) -> Iterator[_Segment]:
    room = MAX_LEAD
    for number, span in enumerate(line):
        text = _undecorated(span.text) if number == 0 else span.text
        if span.style == "code":
            yield _Segment(text.strip(), (), True)
        else:
            yield from _plain_segments(SUPERSEDED.sub("", text[:room]), span.style == "strong")
        room -= len(text)
        if room <= 0:
            return


def _undecorated(text: str) -> str:
    """A line without its number and signs: `❌ 3)` and `#4` say nothing of the eval."""
    before = None
    while before != text:
        before, text = text, ORDINAL.sub("", text, count=1)
    return text


def _plain_segments(text: str, strong: bool) -> Iterator[_Segment]:
    hidden, kept = _hide_remarks(text)
    for part in SEPARATOR.split(hidden):
        remarks = tuple(kept[int(n)] for n in re.findall(r"\x00(\d+)\x00", part))
        bare = _undecorated(re.sub(r"\x00\d+\x00", " ", part).strip())
        if bare or remarks:
            yield _Segment(bare, remarks, strong)


def _hide_remarks(text: str) -> tuple[str, list[str]]:
    """Parentheses out of the way, so that what stands in them separates nothing."""
    kept: list[str] = []

    def hide(match: re.Match[str]) -> str:
        kept.append(match.group(1) or match.group(2) or "")
        return f"\x00{len(kept) - 1}\x00"

    return REMARK.sub(hide, text.replace("\x00", "")), kept


def _label_and_rest(segment: _Segment) -> tuple[str, Label | None]:
    """The segment's words without a label, and the label: in the words or, alone, in a parenthesis."""
    remarks = " ".join(f"({remark})" for remark in segment.remarks)
    if is_label(segment.text):
        return "", label_in(f"{segment.text} {remarks}")
    for remark in segment.remarks:
        if is_label(remark):
            return segment.text, label_in(remark)
    match = LABEL.search(segment.text)
    if match and match.start() * (len(segment.text) - match.end()) == 0:
        words = (segment.text[: match.start()] + segment.text[match.end() :]).strip(" :*")
        if all(is_marked_name(word) for word in words.split()):
            return words, label_in(f"{match.group()} {remarks}")
    return segment.text, None


def _names(words: str, segment: _Segment) -> tuple[Named, ...]:
    candidates = [word for part in JOINER.split(words) for word in part.split()]
    fits = is_name if segment.styled and len(candidates) == 1 and words.islower() else is_marked_name
    if not candidates or not all(fits(word) for word in candidates):
        return ()
    remark = next(iter(segment.remarks), None) if len(candidates) == 1 else None
    return tuple(Named(word, remark) for word in candidates)


def _closing_label(line: Iterable[Span], named: bool) -> Label | None:
    """A label that ends the line on its own, after a dash or in parentheses."""
    text = plain(line)
    if not named or len(LABEL.findall(text)) != 1:
        return None
    end = re.search(r"(?:\s[—–-]{1,2}\s+|\s[(\[])([^—–()\[\]]{1,80}(?:\([^()]*\))?)[)\]]?\.?$", text)
    return label_in(end.group(1)) if end and is_label(end.group(1)) else None
