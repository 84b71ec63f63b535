"""How a heading, a list item or a cell begins: with which evals, which label, which step."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
    evals: list[Named] = []
    label: Label | None = None
    step: str | None = None
    remark: str | None = None
    rest: list[str] = []
    for segment in _segments(line):
        words, said = _label_and_rest(segment)
        names = _names(words, segment)
        if said and ((not rest and names) or (not words and (whole or not rest))):
            label = label or said
        if names and not rest:
            evals.extend(names)
        elif evals and not words and not said and not rest and evals[-1].remark is None:
            evals[-1] = Named(evals[-1].name, next(iter(segment.remarks), None))
        elif evals and step is None and not rest and _is_step(words, whole):
            step = words
        elif words and not LEAD_WORD.match(words):
            rest.append(words)
            remark = remark if len(rest) > 1 else next(iter(segment.remarks), None)
            if not whole:
                break
    if (
        whole
        and not evals
        and rest
        and is_name(rest[0])
        and rest[0].islower()
        and (label or ORDINAL.match(plain(line)))
    ):
        return Lead((Named(rest[0], remark),), label, next(iter(rest[1:]), None), tuple(rest[2:]), unsure=True)
    return Lead(tuple(evals), label or _closing_label(line, bool(evals)), step, tuple(rest))


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
