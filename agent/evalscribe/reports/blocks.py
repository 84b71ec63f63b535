"""Parse markdown into blocks with line numbers: headings, paragraphs, lists, tables, fences, quotations."""

import re
from collections.abc import Iterator
from functools import cache, lru_cache

import yaml
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from mdit_py_plugins.front_matter import front_matter_plugin

from evalscribe.errors import DataError
from evalscribe.ids import Frozen

# The line `=======` does not match, because markdown reads it as the underline of a heading.
MARKER = re.compile(r"(?:<{7}|>{7}|\|{7})(?: \S|$)")
_FRONT = re.compile(r"---\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_MOST_FRONT = 10_000
_MOST_BRACKETS = 100
"""Maximum number of `[` in front matter. The limit protects the YAML parser, which is slow and recursive."""
CACHED_CHARACTERS = 100_000
"""Maximum number of characters of a page whose blocks are cached. A report with 10,000 failures has millions of
characters.
"""


class PageBlock(Frozen):
    """One block of a page: a heading, paragraph, list, table, fence, quotation …"""

    kind: str
    """Type of the block, as markdown-it names it."""
    line: int
    """Number of the block's first line on the page, counted from 1."""
    source: str
    """The block's lines, as they are on the page except for whitespace at line ends."""
    text: str = ""
    """Markdown inside a heading or paragraph, content of a fence, or YAML of front matter."""
    level: int = 0
    """Level of a heading, from 1 to 6. For other blocks, 0."""
    items: tuple["PageBlock", ...] = ()
    """For a list, its items, each with its first paragraph as `text`. For a list item, the items nested in it. For a
    table, its rows.
    """
    cells: tuple[str, ...] = ()
    """Markdown of each cell, for a row of a table."""
    simple: bool = True
    """For a list item, True if it consists of a single paragraph."""
    outline: bool = False
    """For a list item, True if it consists of one paragraph and bullet lists. The items of these lists are then in
    `items`.
    """

    @property
    def end(self) -> int:
        """Number of the block's last line on the page, counted from 1."""
        return self.line + self.source.count("\n")

    @property
    def unquoted(self) -> str:
        """The lines of a quotation without their leading `>`. For any other block, its source."""
        if self.kind != "blockquote":
            return self.source
        return "\n".join(_unquoted(line) for line in self.source.split("\n"))


def _unquoted(line: str) -> str:
    bare = line.lstrip(" ")
    return bare[1:].removeprefix(" ") if bare.startswith(">") else line


def read(text: str) -> list[PageBlock]:
    """Return the blocks of a page, in order. Whitespace at line ends is ignored because editors change it."""
    # Merging, syncing and proposing read a page several times. The cache saves a third of the CPU time of their tests.
    return list(_cached(text)) if len(text) <= CACHED_CHARACTERS else _read(text)


@lru_cache(maxsize=8)
def _cached(text: str) -> tuple[PageBlock, ...]:
    return tuple(_read(text))


def _read(text: str) -> list[PageBlock]:
    text = text.removeprefix("\ufeff")
    lines = [line.rstrip(" \t") for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    page = [_block(node, lines) for node in SyntaxTreeNode(_parser().parse("\n".join(lines))).children]
    return sorted((*page, *_definitions(page, lines)), key=lambda block: block.line)


def _definitions(page: list[PageBlock], lines: list[str]) -> Iterator[PageBlock]:
    """Yield a block for each line that belongs to no other block.

    markdown-it has no syntax node for link definitions, so their lines belong to no other block.
    """
    block_lines = {line for block in page for line in range(block.line, block.end + 1)}
    for number, line in enumerate(lines, 1):
        if line.strip() and number not in block_lines:
            yield PageBlock(kind="definition", line=number, source=line)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table").use(front_matter_plugin)
    # Only the blocks are needed, and parsing inline markup can take quadratic time.
    return parser.disable("inline")


def _block(node: SyntaxTreeNode, lines: list[str]) -> PageBlock:
    first, last = node.map or (0, 0)
    return PageBlock(
        kind=node.type,
        line=first + 1,
        source="\n".join(lines[first:last]).rstrip("\n"),
        text=_text(node),
        level=int(node.tag[1:]) if node.type == "heading" else 0,
        items=tuple(_items(node, lines)),
    )


def _items(node: SyntaxTreeNode, lines: list[str]) -> Iterator[PageBlock]:
    if node.type in ("bullet_list", "ordered_list"):
        for item in node.children:
            block = _block(item, lines)
            paragraphs = [child for child in item.children if child.type == "paragraph"]
            text = _text(paragraphs[0]) if paragraphs else ""
            sublists = [child for child in item.children if child.type == "bullet_list"]
            nested = tuple(subitem for child in sublists for subitem in _items(child, lines))
            outline = len(paragraphs) == 1 and len(item.children) == 1 + len(sublists)
            simple = outline and not sublists
            yield block.model_copy(update={"text": text, "simple": simple, "outline": outline, "items": nested})
    elif node.type == "table":
        for part in node.children:
            for tr in part.children:
                cells = tuple(_text(td) for td in tr.children)
                yield _block(tr, lines).model_copy(update={"cells": cells})


def _text(node: SyntaxTreeNode) -> str:
    if node.type in ("fence", "front_matter", "code_block", "html_block"):
        return node.content
    return node.children[0].content if node.children and node.children[0].type == "inline" else ""


def front_values(source: str) -> dict[object, object]:
    """Parse YAML front matter and return its values. Return an empty dictionary if the YAML is invalid."""
    try:
        values = yaml.safe_load(source) if len(source) <= _MOST_FRONT and source.count("[") < _MOST_BRACKETS else None
    except (yaml.YAMLError, ValueError, RecursionError):
        # An impossible date, such as `2026-99-99`, raises `ValueError`.
        return {}
    return values if isinstance(values, dict) else {}


def front_matter(text: str) -> dict[object, object]:
    """Return the values of a page's front matter; empty if the front matter is missing or invalid."""
    match = _FRONT.match(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    return front_values(match[1]) if match else {}


def text_below(heading: PageBlock, text: str) -> str:
    """Return everything below a heading, up to the end of the text."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(lines[heading.end :])


def refuse_markers(block: PageBlock) -> None:
    """Raise `UnreadableReport` if a block has a git conflict marker. Fences are not checked."""
    # A marker in a fence can be quoted evidence.
    if block.kind != "fence":
        for at, line in enumerate(block.source.split("\n")):
            if MARKER.match(line):
                raise UnreadableReport("this is a git conflict marker: resolve the merge first", block.line + at)


class UnreadableReport(DataError):
    """Error for a page that cannot be parsed. The message has the reason and the line numbers, counted from 1."""

    def __init__(self, reason: str, *lines: int) -> None:
        numbers = " and ".join(str(line) for line in lines)
        super().__init__(f"{'lines' if len(lines) > 1 else 'line'} {numbers}: {reason}")
        self.reason = reason
        self.lines = lines


class ConflictingEdits(UnreadableReport):
    """Error for a label that was changed differently in two places. A person must decide which label is right."""
