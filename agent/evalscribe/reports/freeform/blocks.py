"""Split a markdown text into a flat sequence of blocks."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

from evalscribe.errors import DataError

Style = Literal["plain", "strong", "code"]
BlockKind = Literal["front", "heading", "item", "paragraph", "table", "fence", "rule"]

MAX_CHARACTERS = 8_000_000
MAX_LINES = 100_000
"""Maximum number of lines of a report. Parsing 100,000 list items of one word each takes four seconds."""
MAX_NESTING = 100
"""Maximum number of nested elements. Each list uses two levels. Beyond the maximum, the parser silently drops the rest
of the text.
"""
PLAIN = re.compile(r"[^`*~\[\]<>&\\!\n_]*(?:(?<=[A-Za-z0-9])_(?=[A-Za-z0-9])[^`*~\[\]<>&\\!\n_]*)*")
"""Matches text without inline markup, such as most cells of a large table. Text without markup does not have to be
parsed.
"""
MAX_INLINE = 5_000
"""If a paragraph has more characters than this, its inline markup is not parsed. Parsing takes quadratic time for
malicious text.
"""


@dataclass(frozen=True, slots=True)
class StyledSpan:
    text: str
    style: Style = "plain"


Line = tuple[StyledSpan, ...]


@dataclass(frozen=True, slots=True)
class FreeformBlock:
    """One block of a page.

    `depth` is the number of lists that contain the block. `level` is the level of a heading.
    """

    kind: BlockKind
    lines: tuple[Line, ...] = ()
    """The lines of a heading, item or paragraph, split at line breaks."""
    text: str = ""
    """The content of a fence or of the front matter."""
    rows: tuple[tuple[Line, ...], ...] = ()
    """Rows of a table, including its header, which comes first."""
    level: int = 0
    depth: int = 0
    quoted: bool = False


def plain(line: Iterable[StyledSpan]) -> str:
    return "".join(span.text for span in line).strip()


def marked(line: Iterable[StyledSpan]) -> str:
    """Return the line with backticks around its code spans.

    If the whole line is one code span, return it without backticks.
    """
    parts = [span for span in line if span.text.strip()]
    if len(parts) == 1:
        return parts[0].text.strip()
    return "".join(f"`{span.text}`" if span.style == "code" else span.text for span in line).strip()


def split_blocks(text: str) -> tuple[FreeformBlock, ...]:
    """Return the blocks of a text, in order.

    Raises `DataError` if the text is too large for a report, or if its lists are nested too deeply to be parsed.
    """
    if len(text) > MAX_CHARACTERS or text.count("\n") > MAX_LINES:
        raise DataError(f"too large to be a report: {len(text):,} characters, {text.count(chr(10)):,} lines")
    grammar = (
        MarkdownIt("commonmark", {"maxNesting": MAX_NESTING})
        .enable(["table", "strikethrough"])
        .use(front_matter_plugin)
    )
    # Inline markup is parsed for each block, so that `MAX_INLINE` can limit it.
    grammar.core.ruler.disable("inline")
    tokens = grammar.parse(text.lstrip("\ufeff"))
    if any(token.level >= MAX_NESTING - 1 and token.type == "list_item_open" for token in tokens):
        raise DataError("lists nested too deeply to be read: the text after them would be lost")
    return tuple(_Reader(grammar).read(tokens))


@dataclass(slots=True)
class _Reader:
    grammar: MarkdownIt
    depth: int = 0
    quotes: int = 0
    item_begins: bool = False
    rows: list[tuple[Line, ...]] = field(default_factory=list)
    cells: list[Line] = field(default_factory=list)

    def read(self, tokens: Sequence[Token]) -> Iterator[FreeformBlock]:
        for before, token in zip([None, *tokens], tokens, strict=False):
            self._nest(token)
            if token.type == "inline" and before is not None:
                yield from self._inline(before, token)
            elif token.type in ("fence", "code_block"):
                yield FreeformBlock("fence", text=token.content, depth=self.depth, quoted=self.quotes > 0)
            elif token.type == "front_matter":
                yield FreeformBlock("front", text=token.content)
            elif token.type == "html_block" and (summary := _summary(token.content)):
                yield FreeformBlock(
                    "paragraph", ((StyledSpan(summary, "strong"),),), depth=self.depth, quoted=self.quotes > 0
                )
            elif token.type == "hr":
                yield FreeformBlock("rule")
            elif token.type == "table_close":
                yield FreeformBlock("table", rows=tuple(self.rows), depth=self.depth, quoted=self.quotes > 0)
                self.rows = []

    def _nest(self, token: Token) -> None:
        if token.type in ("bullet_list_open", "ordered_list_open", "bullet_list_close", "ordered_list_close"):
            self.depth += token.nesting
        elif token.type in ("blockquote_open", "blockquote_close"):
            self.quotes += token.nesting
        elif token.type == "list_item_open":
            self.item_begins = True
        elif token.type == "tr_close":
            self.rows.append(tuple(self.cells))
            self.cells = []

    def _inline(self, before: Token, token: Token) -> Iterator[FreeformBlock]:
        lines = _lines(self.grammar, token.content)
        quoted = self.quotes > 0
        if before.type in ("th_open", "td_open"):
            self.cells.append(tuple(span for line in lines for span in line))
        elif before.type == "heading_open":
            line = tuple(span for line in lines for span in line)
            yield FreeformBlock("heading", (line,), level=int(before.tag[1]), depth=self.depth, quoted=quoted)
        else:
            kind: BlockKind = "item" if self.item_begins else "paragraph"
            self.item_begins = False
            yield FreeformBlock(kind, lines, depth=self.depth, quoted=quoted)


def _lines(grammar: MarkdownIt, content: str) -> tuple[Line, ...]:
    if PLAIN.fullmatch(content):
        return ((StyledSpan(content),),)
    if len(content) > MAX_INLINE:
        return tuple((StyledSpan(line),) for line in content.split("\n"))
    return tuple(_broken(grammar.inline.parse(content, grammar, {}, [])))


def _broken(tokens: Iterable[Token]) -> Iterator[Line]:
    """Split parsed inline text at line breaks, and yield the spans of each line.

    Struck-out text and comments are left out.
    """
    line: list[StyledSpan] = []
    strong = struck = 0
    for token in tokens:
        strong += token.nesting if token.type.startswith("strong") else 0
        struck += token.nesting if token.type in ("s_open", "s_close") else 0
        if token.type in ("softbreak", "hardbreak") or token.content.lower().startswith("<br"):
            yield tuple(line)
            line = []
        elif token.type == "code_inline" and not struck:
            line.append(StyledSpan(token.content, "code"))
        elif token.type in ("text", "text_special", "image") and not struck:
            _append(line, StyledSpan(token.content, "strong" if strong else "plain"))
    yield tuple(line)


def _append(line: list[StyledSpan], span: StyledSpan) -> None:
    if line and line[-1].style == span.style:
        line[-1] = StyledSpan(line[-1].text + span.text, span.style)
    elif span.text:
        line.append(span)


def _summary(html: str) -> str:
    """Return the text of the `<summary>` element in an HTML block. Return an empty string if there is none."""
    reader = _Summary()
    reader.feed(html[:MAX_INLINE])
    return " ".join("".join(reader.parts).split())


class _Summary(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.inside = False
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.inside = self.inside or tag == "summary"

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "summary"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.parts.append(data)
