"""A report's lines by section and finding, found without reading the whole page as markdown."""

import re
from collections.abc import Iterator
from typing import NamedTuple

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
SECTION = re.compile(r"##\s+(.*?)[\s#]*")
FINDING = re.compile(r"###\s+\d+[.)]\s")
TOP = "top"
FINDINGS = "findings"
LAST = "actions taken"
"""The section that people write: all that follows is theirs."""


class Part(NamedTuple):
    line: int
    """Number of its first line, counted from 1."""
    lines: list[str]
    """Without line ends and white space before them."""

    def numbered(self) -> Iterator[tuple[int, str]]:
        return enumerate(self.lines, self.line)


def parts(text: str) -> dict[str, Part]:
    """`top` without the front matter, each section by its name in small letters, `findings/1` … by their order."""
    lines = lines_of(text)
    start = _after_front_matter(lines)
    found = {TOP: Part(start + 1, [])}
    key = TOP
    findings = 0
    for at, line, fenced in _fenced(lines, start):
        section = None if fenced else SECTION.fullmatch(line)
        if section and key != LAST:
            key = section[1].casefold()
            found.setdefault(key, Part(at + 1, []))
        elif not fenced and key.startswith(FINDINGS) and FINDING.match(line):
            findings += 1
            key = f"{FINDINGS}/{findings}"
            found[key] = Part(at + 1, [])
        found[key].lines.append(line)
    return found


def lines_of(text: str) -> list[str]:
    """Line ends and white space at line ends are an editor's, not a person's."""
    return [line.rstrip() for line in text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def outside_fences(text: str) -> Iterator[tuple[int, str]]:
    """Number and text of the lines that are no code."""
    lines = lines_of(text)
    return ((at + 1, line) for at, line, fenced in _fenced(lines, _after_front_matter(lines)) if not fenced)


def _after_front_matter(lines: list[str]) -> int:
    if lines[0] != "---":
        return 0
    return next((at for at, line in enumerate(lines[1:], 2) if line == "---"), 0)


def _fenced(lines: list[str], start: int) -> Iterator[tuple[int, str, bool]]:
    """Index and text of each line, and whether it belongs to a fence; the fence's own lines do."""
    fence = ""
    for at, line in enumerate(lines[start:], start):
        mark = FENCE.fullmatch(line)
        if fence:
            yield at, line, True
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        else:
            opens = mark is not None and not (mark[1][0] == "`" and "`" in mark[2])
            fence = mark[1] if mark and opens else ""
            yield at, line, opens
