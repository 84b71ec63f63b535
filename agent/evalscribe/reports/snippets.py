"""Render and parse the quotations of a finding.

If a finding has a single quotation of one line, the quotation is a list item. In any other case, all quotations of the
finding are in one fence. A comment at the end of each quotation's first line then states the place of the quotation. A
statement that extends over several lines is joined into one line if only whitespace changes. The line range of a
joined statement is written with a dash instead of a hyphen.
"""

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, cast
from urllib.parse import quote, unquote

from evalscribe.model.evidence import ROLES, Role
from evalscribe.model.report import MARKS, Snippet
from evalscribe.reports import inline
from evalscribe.reports.blocks import PageBlock, UnreadableReport

_PLACE = rf"({'|'.join(ROLES)}) +(\S+):(\d+)(?:([-–])(\d+))?"
PLACE = re.compile(rf"(.*?) *  (?:#|//|--) {_PLACE}")
ITEM = re.compile(rf"- (`+.+`+) {_PLACE}")
LONGEST = 4000
ALIGNED = 80
"""If a quoted line has more characters than this, its place is not aligned with the places of other lines. Only places
in output and expected output are aligned.
"""
SIDES = ("output", "expected")
JOINED = 120
"""Maximum number of characters of a line that results from joining several lines."""
_STRING = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")
_INSIDE = re.compile(r"\s+(?=[)\]])|(?<=[(\[])\s+")
LANGUAGES = {
    "python": "py pyi",
    "ts": "ts mts cts",
    "tsx": "tsx",
    "js": "js mjs cjs",
    "jsx": "jsx",
    "json": "json",
    "yaml": "yml yaml",
    "toml": "toml",
    "sh": "sh bash",
    "sql": "sql",
    "lua": "lua",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "kotlin": "kt",
    "swift": "swift",
    "csharp": "cs",
    "c": "c h",
    "cpp": "cc cpp hpp",
    "php": "php",
    "ruby": "rb",
}
LANGUAGE_OF = {ending: language for language, endings in LANGUAGES.items() for ending in endings.split()}
HASH = {"python", "yaml", "toml", "sh", "ruby", "text"}
DASHES = {"sql", "lua"}


class Quoted(NamedTuple):
    """A quotation as it is shown on a page."""

    snippet: Snippet
    """The quotation itself. If its lines were joined, the text is a single line."""
    line: int
    """Number of the line on the page at which the quotation begins."""
    last: int
    """Number of the line in the quoted document at which the quotation ends."""


def render(snippets: Sequence[Snippet]) -> list[str]:
    if not snippets:
        return []
    texts = [_joined(snippet.text) for snippet in snippets]
    places = [_place(snippet, text) for snippet, text in zip(snippets, texts, strict=True)]
    firsts = [MARKS[s.status] + text.partition("\n")[0] for s, text in zip(snippets, texts, strict=True)]
    # In a list item, any other path would be read as markdown.
    plain = inline.name(snippets[0].path) == snippets[0].path
    if plain and len(snippets) == 1 and "\n" not in texts[0] and texts[0].strip():
        return [f"- {inline.code(firsts[0])} {snippets[0].role} {places[0]}"]
    language = _language(snippets)
    comment = "#" if language in HASH else "--" if language in DASHES else "//"
    sides = [s.role in SIDES and len(first) <= ALIGNED for s, first in zip(snippets, firsts, strict=True)]
    width = max((len(first) for first, side in zip(firsts, sides, strict=True) if side), default=0)
    lines: list[str] = []
    for snippet, text, first, place, side in zip(snippets, texts, firsts, places, sides, strict=True):
        lines.append(f"{first:{width if side else 0}}  {comment} {snippet.role} {place}")
        lines += text.split("\n")[1:]
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", "\n".join(lines))), default=0))
    return [f"{fence}{language}", *lines, fence]


def _joined(text: str) -> str:
    """Join the lines of a statement.

    The lines are joined only if every line except the last ends inside brackets, no line has a comment, and the result
    is short enough. If not, the text is returned unchanged.
    """
    lines = [line.strip() for line in text.split("\n")]
    if len(lines) == 1:
        return lines[0]
    bare = [_STRING.sub("", line) for line in lines]
    depths = list(accumulate(len(re.findall(r"[(\[{]", line)) - len(re.findall(r"[)\]}]", line)) for line in bare))
    joined = _INSIDE.sub("", " ".join(lines))
    # A comment would hide the text joined to it, and the line breaks in a template string are part of it.
    comment = any(mark in line for line in bare for mark in ("//", "#", "/*", "`"))
    return text if comment or len(joined) > JOINED or any(depth <= 0 for depth in depths[:-1]) else joined


def parse(block: PageBlock) -> list[Quoted]:
    """Parse the quotations in a fence. Raises `UnreadableReport` if a quotation has no valid place."""
    lines = block.text.split("\n")[:-1]
    quoted = []
    at = 0
    while at < len(lines):
        match = PLACE.fullmatch(lines[at]) if len(lines[at]) <= LONGEST else None
        line = block.line + 1 + at
        if match is None:
            raise UnreadableReport("a quotation is not followed by role, file and line", line)
        count = 1 if match[5] == "–" else int(match[6] or match[4]) - int(match[4]) + 1
        quoted.append(_quoted(match, match[1], lines[at + 1 : at + count], line))
        # In an edited place such as `9-3`, the count is negative, and the loop would not end.
        at += max(1, count)
    return quoted


def parse_item(text: str, line: int) -> Quoted | None:
    """Parse a list item as a quotation. Return None if it is not a quotation."""
    match = ITEM.fullmatch(text) if len(text) <= LONGEST else None
    return _quoted(match, inline.uncode(match[1]), [], line) if match else None


def _quoted(match: re.Match[str], first: str, more: list[str], line: int) -> Quoted:
    marks = ((status, mark) for status, mark in MARKS.items() if mark)
    status, mark = next((pair for pair in marks if f"{first} ".startswith(pair[1])), ("verified", ""))
    try:
        snippet = Snippet(
            role=cast(Role, match[2]),
            path=unquote(match[3]),
            first=int(match[4]),
            text="\n".join((first[len(mark) :], *more)),
            status=status,
        )
    except ValueError as error:
        raise UnreadableReport("a quotation has an invalid place", line) from error
    return Quoted(snippet, line, int(match[6] or match[4]))


def _place(snippet: Snippet, printed: str) -> str:
    to = "-" if "\n" in printed else "–"
    last = f"{to}{snippet.last}" if snippet.last != snippet.first else ""
    # Whitespace is escaped, because a place is parsed up to the next whitespace.
    return f"{quote(snippet.path, safe='/.-_~+@()[]$,:=')}:{snippet.first}{last}"


def _language(snippets: Sequence[Snippet]) -> str:
    endings = (snippet.path.rpartition(".")[2].lower() for snippet in snippets)
    return next((LANGUAGE_OF[ending] for ending in endings if ending in LANGUAGE_OF), "text")


def is_generated(block: PageBlock) -> bool:
    """Return whether evalscribe generated a fence.

    The first line of a generated fence ends with the place of a quotation. In a fence that a person wrote, it
    does not end with a place.
    """
    first = block.text.partition("\n")[0]
    return len(first) <= LONGEST and PLACE.fullmatch(first) is not None
