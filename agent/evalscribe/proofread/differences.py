"""Where the lines of a section differ from those that the report's content makes."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from evalscribe.proofread.parts import TOP, Part
from evalscribe.report_markdown import fields

MARKERS = re.compile(r"^[\s>*+-]+|[`*_\\|]")
REVIEWER = re.compile(rf"^[\s>*+_#-]*{fields.REVIEWER.pattern}", re.IGNORECASE)
RULE = re.compile(r"[\s|:-]*")
"""A table's line of dashes, which an editor may draw anew; or nothing."""
ROW = re.compile(r"\|\s*((?:[^|\\]|\\.)*?)\s*\|")
FACT = re.compile(r"- (Error|Missing|Cause|Judge|Seen):")
GONE = re.compile(r"- (?:Resolved|No longer failing)\b")
IMPACT = "net impact"


class Difference(NamedTuple):
    line: int
    key: str
    """Which generated line it is: `title`, `summary`, `row …`, `fact …`, `heading`; empty for any other."""
    said: str | None
    """None where the line is missing."""
    meant: str | None
    """None where nothing of the kind belongs there."""


def differences(section: str, actual: Part, expected: Part) -> Iterator[Difference]:
    """What people added and evalscribe keeps is no difference, nor are white space, emphasis and broken lines."""
    here, there = _logical(section, actual), [line for _, line in _logical(section, expected)]
    known = set(map(bare, there))
    present = {bare(line) for _, line in here}
    missing = {_key(section, line) or line: line for line in there if bare(line) not in present and _says(line)}
    odd = [(number, line) for number, line in here if _says(line) and bare(line) not in known]
    kept = " ".join(map(bare, there)) if odd else ""
    for number, line in odd:
        key = _key(section, line)
        if key in missing:
            yield Difference(number, key, line, missing.pop(key))
        elif bare(line) not in kept:
            yield Difference(number, key, line, None)
    written = " ".join(bare(line) for _, line in here) if missing else ""
    for key, line in missing.items():
        if not REVIEWER.match(line) and bare(line) not in written:
            yield Difference(actual.line, key if key != line else "", None, line)


def bare(line: str) -> str:
    """Its words: markers of lists, quotations, tables and code left out."""
    return " ".join(MARKERS.sub("", REVIEWER.sub("", line)).split())


def apart(said: str, meant: str) -> tuple[str, str]:
    """The words in which two lines differ, with two around them."""
    one, other = said.split(), meant.split()
    first = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    back = zip(reversed(one[first:]), reversed(other[first:]), strict=False)
    last = next((at for at, (a, b) in enumerate(back) if a != b), min(len(one), len(other)) - first)
    start = max(0, first - 2)
    return " ".join(one[start : len(one) - max(0, last - 2)]), " ".join(other[start : len(other) - max(0, last - 2)])


def _says(line: str) -> bool:
    return RULE.fullmatch(line) is None


def _logical(section: str, part: Part) -> list[tuple[int, str]]:
    """Numbered lines; the summary's first paragraph is one, however it is broken."""
    lines = [(number, line) for number, line in part.numbered() if line]
    if section != TOP:
        return lines
    at = next((at for at, (_, line) in enumerate(lines) if line.startswith("**")), len(lines))
    end = at
    while end < len(lines) and lines[end][0] == lines[at][0] + end - at and not lines[end][1].startswith(("|", ">")):
        end += 1
    whole = [(lines[at][0], " ".join(line for _, line in lines[at:end]))] if at < end else []
    return [*lines[:at], *whole, *lines[end:]]


def _key(section: str, line: str) -> str:
    if section == TOP and line.startswith(("# ", "**")):
        return "title" if line.startswith("#") else "summary"
    if row := ROW.match(line):
        cell = row[1].split(" ")[0] if section == IMPACT else row[1]
        return f"row {bare(cell)}"
    if fact := FACT.match(line):
        return f"fact {fact[1]}"
    if GONE.match(line):
        return "resolved"
    return "heading" if line.startswith("### ") and section.startswith("findings/") else ""
