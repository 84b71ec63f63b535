"""Excerpts: which lines of which document, and what they cost."""

from collections.abc import Iterable, Iterator, Sequence

from evalscribe.judging import prompt_text
from evalscribe.model.evidence import Document, Excerpt
from evalscribe.text import cut, printable

MAX_LINE = 600
"""Characters of one line that are worth a prompt's while."""
LONGEST_PATH = 200
NEAR = 2
"""Chosen lines this close to each other are one excerpt."""
BOILERPLATE = ("readme", "license", "changelog", "tsconfig", ".gitignore", ".npmrc", ".env")
GENERATED = (".lock", ".lockb", "-lock.json", "-lock.yaml", ".map", ".min.js", ".snap", ".sqlite3", ".blob")

Range = tuple[int, int]
"""First and last line, from 1."""


def is_boilerplate(path: str) -> bool:
    """Whether a file is likely the same in every eval: readme, licence, compiler settings, lock files."""
    name = path.rpartition("/")[2].lower()
    return name.startswith(BOILERPLATE) or name.endswith((*GENERATED, ".md", ".log"))


def shown(path: str) -> str:
    """A path from untrusted data on one line of bounded length."""
    return cut(printable(path[: LONGEST_PATH + 1]), LONGEST_PATH)


def clipped(line: str) -> str:
    if len(line) <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]}… [{len(line) - MAX_LINE} more characters]"


def excerpts(document: Document, ranges: Iterable[Range]) -> Iterator[Excerpt]:
    """The lines of the ranges, near ones joined, in order."""
    for first, last in merged(ranges, len(document.lines)):
        text = "\n".join(clipped(line) for line in document.lines[first - 1 : last])
        if text.strip():
            yield Excerpt(role=document.role, path=document.path, first=first, text=text)


def merged(ranges: Iterable[Range], length: int) -> list[Range]:
    """The ranges within a document of this many lines, in order, near ones joined."""
    joined: list[Range] = []
    for first, last in sorted((max(1, first), min(length, last)) for first, last in ranges):
        if last < first:
            continue
        if joined and first <= joined[-1][1] + NEAR + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def head(document: Document, budget: int) -> Range:
    """As many of the first lines as the budget allows; (1, 0) when none fits."""
    return 1, fitting(document.lines, budget)


def fitting(lines: Sequence[str], budget: int) -> int:
    """How many of the first lines fit into so many tokens."""
    spent = 0
    for at, line in enumerate(lines):
        spent += prompt_text.estimate_tokens(clipped(line)) + 1
        if spent > budget:
            return at
    return len(lines)
