"""Documents of the evidence as numbered lines with anchors: whole, as excerpts, or on pages of limited size."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from markupsafe import Markup

from evalscribe.evidence.differences import DocumentPair, diff_hunks
from evalscribe.judging.pack import merge_ranges
from evalscribe.model.analysis import CitationSummary
from evalscribe.model.evidence import Document, Evidence
from evalscribe.text import name
from evalscribe.web.inbox import mark_differences
from evalscribe.web.site import anchor, shown

PAGE_LINES = 3_000
"""Maximum lines on one page of a document. A very long line counts as several."""
PAGE_CHARACTERS = 200_000
"""Maximum characters on one page. HTML escaping can turn each character into five bytes."""
WHOLE_LINES = 2_000
"""Maximum lines of a document that can be shown in full on its eval's page."""
PIECE = 2_000
"""Length in characters of the pieces into which a very long line is divided."""
BLOCK = 100
"""Maximum number of lines in a block. The browser lays out a block only when the reader scrolls to it."""
AROUND = 12
"""Number of context lines on each side of a cited line in an excerpt."""
START, END, END_OF_LOG = 10, 20, 80
"""Number of lines in an excerpt: at the document's start, at its end, and at the end of a log."""
LONGEST_CITED = 200
"""Maximum number of lines that are marked for one citation."""
CLIPPED = 3
"""Maximum number of pieces of a very long line that an excerpt shows."""
MOST_MARKED = 300
"""Number of changed lines after which differing words are no longer marked."""
MOST_MATCHES = 200
"""Maximum number of matching lines that a search shows per document."""

Position = tuple[int, int]
"""Number of a line (from 1), and index of a piece within that line (from 0)."""


class LineSpan(NamedTuple):
    """A range of lines or pieces of lines, from `first` up to but not including `end`."""

    first: Position
    end: Position


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line, or a piece of a very long line."""

    n: int | None
    """Number of the line; None for the second and later pieces of a line."""
    text: str
    id: str | None = None
    also: tuple[str, ...] = ()
    """Other anchors of the line.

    Links from reports need these anchors, because a report can spell a document's path differently.
    """
    kind: str = ""
    """CSS classes of the line in addition to `line`: `cited`, `changed`, both or none."""
    href: str | None = None
    """Address to which the line number links; None if it is not a link."""
    hidden: int = 0
    """Number of characters of the line that are left out after this piece."""


@dataclass(frozen=True, slots=True)
class LineBlock:
    lines: Sequence[ShownLine]
    skipped: int = 0
    """Number of lines that are left out before the block."""
    skipped_page: int | None = None
    """Number of the document's page that contains the first line left out before the block."""

    @property
    def is_long(self) -> bool:
        """True if the block is long enough to be laid out only when the reader scrolls to it."""
        return len(self.lines) > BLOCK // 2


@dataclass(frozen=True)
class PairPart:
    """A part of an output beside the corresponding part of its reference.

    The lines of the two parts are either all equal or all different.
    """

    equal: bool
    output: LineBlock
    expected: LineBlock

    @property
    def id(self) -> str | None:
        """Anchor of the part's first line."""
        return next((line.id for block in (self.output, self.expected) for line in block.lines), None)

    @property
    def n(self) -> int | None:
        return next((line.n for block in (self.output, self.expected) for line in block.lines), None)


@dataclass(frozen=True)
class PagedDocument:
    """A document of the evidence in the form that the pages show."""

    document: Document
    number: int
    """Number of the document in the evidence, from 1."""
    base: str
    """Beginning of every line's anchor. The line's number is appended to it."""
    link: str
    """Name of the document in permanent links.

    It is the document's path, preceded by the role if several documents have the same path.
    """
    citations: tuple[CitationSummary, ...] = ()
    """Citations in the finding that quote this document."""
    other_bases: tuple[str, ...] = ()
    """Beginnings of the anchors to which reports link if they spell the document's path differently."""
    starts: Set[int] = field(default_factory=frozenset)
    """Numbers of the lines at which messages start. If possible, a page ends just before such a line."""

    @property
    def path(self) -> str:
        return self.document.path

    @property
    def role(self) -> str:
        return self.document.role

    @cached_property
    def lines(self) -> Sequence[str]:
        return self.document.lines[: self.document.line_count]

    @property
    def line_count(self) -> int:
        return len(self.lines)

    @cached_property
    def is_short(self) -> bool:
        """True if the document is short enough to be shown in full on its eval's page."""
        return len(self.document.text) <= PAGE_CHARACTERS and self.line_count <= WHOLE_LINES

    @cached_property
    def cited(self) -> Set[int]:
        ranges = ((cited.first, min(cited.last, cited.first + LONGEST_CITED - 1)) for cited in self.citations)
        return {n for first, last in ranges for n in range(max(1, first), min(last, self.line_count) + 1)}

    @cached_property
    def pages(self) -> tuple[LineSpan, ...]:
        """The range of lines on each page. Every document has at least one page."""
        pages: list[LineSpan] = []
        start, rows, size = (1, 0), 0, 0
        for n, line in enumerate(self.lines, 1):
            # A page that is three quarters full ends before the next message, so that few messages are split.
            full_enough = n in self.starts and (rows >= PAGE_LINES * 3 // 4 or size >= PAGE_CHARACTERS * 3 // 4)
            for piece in range(_pieces(line)):
                length = min(PIECE, len(line) - piece * PIECE)
                if rows and (rows >= PAGE_LINES or size + length > PAGE_CHARACTERS or (full_enough and not piece)):
                    pages.append(LineSpan(start, (n, piece)))
                    start, rows, size = (n, piece), 0, 0
                rows, size = rows + 1, size + length
        return (*pages, LineSpan(start, (self.line_count + 1, 0)))

    @cached_property
    def page_starts(self) -> Sequence[int]:
        """For each page, the number of the first line that starts on that page or on a later one."""
        return [line + (piece > 0) for (line, piece), _ in self.pages]

    def page_of(self, n: int) -> int:
        """Return the number of the page, from 1, on which a line starts."""
        return max(1, bisect_right(self.page_starts, n))

    @property
    def full_span(self) -> LineSpan:
        return LineSpan((1, 0), (self.line_count + 1, 0))

    @cached_property
    def excerpt(self) -> Sequence[LineSpan]:
        """Line ranges of the document's excerpt: its start, the cited lines with context, and its end."""
        ranges = [(n - AROUND, n + AROUND) for n in self.cited]
        end = END_OF_LOG if self.role == "log" else END
        return self.spans([(1, START), *ranges, (self.line_count - end + 1, self.line_count)])

    def spans(self, ranges: Iterable[tuple[int, int]], near: int = 2) -> Sequence[LineSpan]:
        """Merge ranges of line numbers into spans in document order.

        Ranges are merged if at most `near` lines lie between them. The spans end when their total reaches
        `PAGE_CHARACTERS`.
        """
        spans, room = [], PAGE_CHARACTERS
        for first, last in merge_ranges(ranges, self.line_count, near):
            end = first
            while end <= last and room > 0:
                room -= min(len(self.lines[end - 1]), CLIPPED * PIECE) + 1
                end += 1
            if end > first:
                spans.append(LineSpan((first, 0), (end, 0)))
        return spans

    def blocks(
        self, spans: Iterable[LineSpan], *, clip: bool = False, changed: Mapping[int, str | None] | None = None
    ) -> Sequence[LineBlock]:
        """Return the lines within the given spans, divided into blocks.

        Args:
            spans: The spans, in order.
            clip: True to show only some pieces of very long lines.
            changed: Lines that differ from the document with which this document is compared, keyed by line number.
                The value is the line as markup, or None to show the line without marked words.
        """
        blocks, after = [], 1
        for span in spans:
            rows = list(self._rows(span, clip, changed or {}))
            skipped = span.first[0] - after if clip else 0
            for at in range(0, len(rows), BLOCK):
                page = self.page_of(after) if skipped and not at else None
                blocks.append(LineBlock(rows[at : at + BLOCK], skipped=0 if at else skipped, skipped_page=page))
            after = span.end[0]
        if clip and after <= self.line_count:
            blocks.append(LineBlock((), skipped=self.line_count + 1 - after, skipped_page=self.page_of(after)))
        return blocks

    def _rows(self, span: LineSpan, clip: bool, changed: Mapping[int, str | None]) -> Iterator[ShownLine]:
        n, piece = span.first
        while (n, piece) < span.end and n <= self.line_count:
            line = self.lines[n - 1]
            if len(line) <= PIECE:
                yield self._line(n, changed.get(n) or line, changed=n in changed)
            else:
                stop = span.end[1] if n == span.end[0] else _pieces(line)
                yield from self._long_line(n, self._clipped(n, piece, stop) if clip else range(piece, stop))
            n, piece = n + 1, 0

    def _long_line(self, n: int, pieces: Sequence[int]) -> Iterator[ShownLine]:
        line = self.lines[n - 1]
        for piece, following in zip(pieces, [*pieces[1:], None], strict=True):
            text = line[piece * PIECE : (piece + 1) * PIECE]
            end = len(line) if following is None else following * PIECE
            hidden = max(0, end - (piece + 1) * PIECE) if len(pieces) <= CLIPPED else 0
            if piece == 0:
                yield self._line(n, text, hidden=hidden)
            else:
                yield ShownLine(None, text, kind="cited" if n in self.cited else "", hidden=hidden)

    def _clipped(self, n: int, first: int, stop: int) -> Sequence[int]:
        """Return the indices of the pieces of a very long line that an excerpt shows: first and cited pieces."""
        pieces = dict.fromkeys(range(first, min(stop, first + CLIPPED - 1)))
        for citation in self.citations:
            # A shortened quotation ends with `…`, which is not part of the line.
            quoted = citation.text.strip().partition("\n")[0].rstrip("…")
            at = self.lines[n - 1].find(quoted) if quoted and citation.first <= n <= citation.last else -1
            if first <= at // PIECE < stop:
                pieces[at // PIECE] = None
        return sorted(pieces)[:CLIPPED]

    def _line(self, n: int, text: str, *, changed: bool = False, hidden: int = 0) -> ShownLine:
        cited = n in self.cited
        kind = " ".join(word for word, holds in (("cited", cited), ("changed", changed)) if holds)
        id_ = f"{self.base}{n}"
        also = tuple(f"{other}{n}" for other in self.other_bases) if cited else ()
        return ShownLine(n, text, id_, also, kind, f"#{id_}" if cited else None, hidden)

    def matches(self, words: str) -> Sequence[int]:
        """Return the numbers of the lines that contain a text, ignoring case.

        The search ends after `MOST_MATCHES` + 1 matching lines.
        """
        lowered, numbers = words.lower(), []
        for n, line in enumerate(self.lines, 1):
            if lowered in line.lower():
                numbers.append(n)
                if len(numbers) > MOST_MATCHES:
                    break
        return numbers

    def result(self, words: str, href: str) -> Sequence[LineBlock]:
        """Return the first lines that contain a text, each with one line of context on both sides.

        Args:
            words: The text to search for.
            href: Address of the document's pages. The placeholder `{page}` is replaced with the number of the page
                that contains the line.
        """
        matches = self.matches(words)[:MOST_MATCHES]
        pattern = re.compile(re.escape(words), re.IGNORECASE)
        spans = self.spans(((n - 1, n + 1) for n in matches), near=0)
        blocks: list[LineBlock] = []
        after = 1
        for span in spans:
            rows = [
                ShownLine(n, _around(pattern, self.lines[n - 1]), href=self._address(href, n))
                for n in range(span.first[0], span.end[0])
            ]
            blocks.append(LineBlock(rows, skipped=span.first[0] - after if blocks else 0))
            after = span.end[0]
        return blocks

    def _address(self, href: str, n: int) -> str:
        return f"{href.replace('{page}', str(self.page_of(n)))}#{self.base}{n}"


def page_documents(
    evidence: Evidence, citations: Sequence[CitationSummary], starts: Mapping[int, Set[int]]
) -> Sequence[PagedDocument]:
    """Return the documents in the order of the evidence, with their anchors and citations.

    Args:
        evidence: The evidence.
        citations: Citations of the finding. A report can shorten the paths of its citations, and removes invisible
            characters from these paths.
        starts: Numbers of the lines at which messages start, keyed by the index of the document.
    """
    paths: dict[str, int] = {}
    for document in evidence.documents:
        paths[str(shown(document.path))] = paths.get(str(shown(document.path)), 0) + 1
    bases: dict[str, None] = {}
    links: dict[str, None] = {}
    documents = []
    for index, document in enumerate(evidence.documents):
        plain = str(shown(document.path))
        link = plain if paths[plain] == 1 else f"{document.role}:{plain}"
        base = _base(document.role, document.path)
        spelled = name(document.path)
        is_first = base not in bases
        # Several documents can have the same role and path. Citations then belong to the first of them.
        cited = [
            citation
            for citation in citations
            if citation.role == document.role and citation.path in (document.path, spelled) and is_first
        ]
        other_bases = dict.fromkeys(_base(citation.role, citation.path) for citation in cited)
        other_bases.pop(base, None)
        unique_base = base if is_first else base.removesuffix("L") + f"again~{index + 1}-L"
        unique_link = link if link not in links else f"{link}~{index + 1}"
        bases[unique_base] = links[unique_link] = None
        documents.append(
            PagedDocument(
                document=document,
                number=index + 1,
                base=unique_base,
                link=unique_link,
                citations=tuple(cited),
                other_bases=tuple(other_bases),
                starts=starts.get(index, frozenset()),
            )
        )
    return documents


def pair_parts(output: PagedDocument, expected: PagedDocument) -> Sequence[PairPart]:
    """Divide an output and its reference into parts that are shown side by side."""
    pair = DocumentPair(output=output.document, expected=expected.document)
    parts: list[PairPart] = []
    left, right, marked = 1, 1, 0
    for hunk in diff_hunks(pair, context=0):
        for change in hunk.changes:
            parts += _equal_parts(output, expected, left, right, change.output_first)
            left, right = change.output_first, change.expected_first
            texts: list[tuple[str | None, str | None]] = []
            if len(change.output) == len(change.expected) and marked < MOST_MARKED:
                marked += len(change.output)
                texts = [mark_differences(*lines) for lines in zip(change.output, change.expected, strict=True)]
            sides = [
                document.blocks(
                    [LineSpan((first, 0), (first + len(lines), 0))],
                    changed={first + at: texts[at][side] if texts else None for at in range(len(lines))},
                )
                for side, (document, first, lines) in enumerate(
                    ((output, left, change.output), (expected, right, change.expected))
                )
            ]
            parts += _side_by_side(sides[0], sides[1], equal=False)
            left, right = left + len(change.output), right + len(change.expected)
    return [*parts, *_equal_parts(output, expected, left, right, output.line_count + 1)]


def _equal_parts(output: PagedDocument, expected: PagedDocument, left: int, right: int, end: int) -> Iterator[PairPart]:
    spans = LineSpan((left, 0), (end, 0)), LineSpan((right, 0), (right + end - left, 0))
    yield from _side_by_side(output.blocks([spans[0]]), expected.blocks([spans[1]]), equal=True)


def _side_by_side(output: Sequence[LineBlock], expected: Sequence[LineBlock], *, equal: bool) -> Iterator[PairPart]:
    nothing = LineBlock(())
    for at in range(max(len(output), len(expected))):
        left = output[at] if at < len(output) else nothing
        right = expected[at] if at < len(expected) else nothing
        yield PairPart(equal, left, right)


def _base(role: str, path: str) -> str:
    return anchor(role, path, 1).removesuffix("1")


def _pieces(line: str) -> int:
    return max(1, -(-len(line) // PIECE))


def _around(pattern: re.Pattern[str], line: str) -> Markup:
    """Return the part of a line around the first match, with every match in it marked."""
    first_match = pattern.search(line)
    # There may be no match: `matches` compares lower-case texts, which can be longer than the line, as for `İ`.
    first = max(0, first_match.start() - PIECE // 4) if first_match else 0
    text = line[first : first + PIECE]
    parts, end = [Markup("…") if first else Markup("")], 0
    for match in pattern.finditer(text):
        parts += [Markup.escape(shown(text[end : match.start()])), Markup("<mark>{}</mark>").format(shown(match[0]))]
        end = match.end()
    return Markup("").join([*parts, Markup.escape(shown(text[end:])), "…" if first + PIECE < len(line) else ""])
