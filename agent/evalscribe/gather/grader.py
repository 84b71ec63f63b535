"""The part of a grader that failed: the blocks of the tests that the log names."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from evalscribe.gather.pieces import Range, excerpts, head
from evalscribe.model.evidence import Document, Evidence, Excerpt

MAX_BLOCK = 120
"""Lines of one test that are shown."""
MOST_TESTS = 20
UNNAMED_BUDGET = 500
"""Tokens of the grader's beginning, where no failed test could be found in it."""
_CLOSER = re.compile(r"\s*[)\]}]")


def grader_excerpts(evidence: Evidence, names: Sequence[str]) -> list[Excerpt]:
    """The blocks of the named tests, each once; where none is found, the beginning of the grader."""
    graders = evidence.of("grader")
    found: list[Excerpt] = []
    for grader in graders:
        found += excerpts(grader, _blocks(grader, names))
    if not found and graders:
        found += excerpts(graders[0], [head(graders[0], UNNAMED_BUDGET)])
    return found


def _blocks(grader: Document, names: Sequence[str]) -> Iterator[Range]:
    for name in islice(dict.fromkeys(_bare(name) for name in names), MOST_TESTS):
        at = _line_of(grader.lines, name)
        if at is not None:
            yield _block(grader.lines, at)


def _bare(name: str) -> str:
    """The innermost name: without the suites around it and the parameters behind it."""
    inner = re.split(r" > | › |::", name)[-1]
    return re.sub(r"\[.*\]$", "", inner).strip()


def _line_of(lines: Sequence[str], name: str) -> int | None:
    """Index of the line that opens the test: the name as a whole, quoted or defined."""
    if not name:
        return None
    whole = re.compile(rf"(?<!\w){re.escape(name[:300])}(?!\w)")
    return next((at for at, line in enumerate(lines) if name[:300] in line and whole.search(line[:2000])), None)


def _block(lines: Sequence[str], at: int) -> Range:
    """From the opening line to the last that is indented deeper, with its closing bracket."""
    first = at
    while first > 0 and lines[first].strip()[:1] in "\"'`" and _indent(lines[first]) > 0:
        first -= 1
    depth, last = _indent(lines[first]), first
    for below in range(at + 1, min(len(lines), first + MAX_BLOCK)):
        if lines[below].strip() and _indent(lines[below]) <= depth:
            last = below if _CLOSER.match(lines[below]) else last
            break
        last = below if lines[below].strip() else last
    while first > 0 and lines[first - 1].lstrip().startswith("@"):
        first -= 1
    return first + 1, last + 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
