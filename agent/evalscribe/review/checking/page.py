"""One report, read and compared with itself."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from evalscribe.model.report import Report
from evalscribe.proofread.generated import generated
from evalscribe.proofread.parts import FINDINGS, Part, lines_of, outside_fences, parts
from evalscribe.proofread.said import Said
from evalscribe.report_markdown.page import parse
from evalscribe.report_markdown.unreadable import ConflictingEdits, UnreadableReport
from evalscribe.review.checking.links import links
from evalscribe.review.checking.naming import front_matter, naming

KIND = re.compile(r"""kind:\s*["']?evalscribe-report/""")
HEAD = 40
"""Lines in which a report's kind is looked for, also when the front matter around it is broken."""
MARKER = re.compile(r"<{7}(?: .*)?|\|{7}(?: .*)?|={7}|>{7}(?: .*)?")


class Page(NamedTuple):
    report: Report | None
    """None where it cannot be read."""
    findings: tuple[Part, ...]
    """The lines of each finding."""
    problems: tuple[Said, ...]


def is_ours(text: str) -> bool:
    return any(KIND.match(line) for line in lines_of(text)[:HEAD])


def inspect(text: str, name: str, exists: Callable[[str], bool], written: Report | None = None) -> Page:
    """All that can be said of a report of ours without its evidence; `written` as evalscribe wrote it last, if known.

    `name` and `exists` as in `links`.
    """
    found = tuple(markers(text))
    if found:
        return Page(None, (), found)
    try:
        report = parse(text, written)
    except UnreadableReport as error:
        return Page(None, (), tuple(markers(text, code=True)) or (_unreadable(error),))
    page = parts(text)
    problems = (
        *naming(report, name),
        *front_matter(report),
        *generated(report, page),
        *links(text, report, name, exists),
    )
    return Page(report, tuple(part for key, part in page.items() if key.startswith(f"{FINDINGS}/")), problems)


def markers(text: str, *, code: bool = False) -> Iterator[Said]:
    """Each line that a merge left behind; those inside `code` may be a quotation of somebody else's conflict."""
    lines = enumerate(lines_of(text), 1) if code else outside_fences_and_front(text)
    marks = [(number, line) for number, line in lines if MARKER.fullmatch(line)]
    if any(line.startswith("<") for _, line in marks) and any(line.startswith(">") for _, line in marks):
        for number, line in marks:
            yield Said(number, "error", f"a conflict that nobody resolved: {line[:40]!r}")


def outside_fences_and_front(text: str) -> Iterator[tuple[int, str]]:
    """Front matter is looked at too: its revision is what two branches change first."""
    numbers = dict(outside_fences(text))
    first = min(numbers, default=1)
    yield from ((at, line) for at, line in enumerate(lines_of(text)[: first - 1], 1))
    yield from numbers.items()


def _unreadable(error: UnreadableReport) -> Said:
    several = isinstance(error, ConflictingEdits) or len(error.lines) > 1
    return Said(max(1, min(error.lines, default=1)), "error", str(error) if several else error.reason)
