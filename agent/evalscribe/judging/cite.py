"""Citations are resolved, not trusted: a quotation is verified only line by line against the stored evidence.

White space may differ, nothing else: whole lines are compared, so that a dropped negation, a changed number or the
words of two lines joined into one never pass. What is returned holds the document's own text.
"""

import re
from collections.abc import Iterator, Sequence

from evalscribe.model.evidence import ROLES, Citation, Document, Evidence, Role

MAX_QUOTED_LINES = 400
"""A longer quotation is no quotation."""
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def cite(document: Document, first: int, last: int) -> Citation:
    """The verified quotation of lines `first` to `last` (from 1, inclusive), cut to the lines that there are."""
    first = max(1, min(first, len(document.lines)))
    last = max(first, min(last, len(document.lines)))
    text = "\n".join(document.lines[first - 1 : last])
    return Citation(role=document.role, path=document.path, first=first, last=last, text=text, status="verified")


def verify(citation: Citation, evidence: Evidence) -> Citation:
    """The citation with its status: `verified` at its lines, `relocated` to where it really stands, or `unverified`."""
    unverified = citation.model_copy(update={"status": "unverified"})
    document = evidence.document(citation.role, citation.path)
    quote = _folded(citation.text.split("\n"))
    if document is None or not quote or len(quote) > MAX_QUOTED_LINES:
        return unverified
    spans = list(_spans(_folded(document.lines), quote))
    if not spans:
        return unverified
    first, last = min(spans, key=lambda span: abs(span[0] - citation.first))
    found = cite(document, first, last)
    at_its_lines = _claims(citation, document, first, last)
    return found if at_its_lines else found.model_copy(update={"status": "relocated"})


def find(evidence: Evidence, text: str, roles: Sequence[Role] = ROLES) -> Citation | None:
    """Where a snippet stands: the first whole lines of these roles that hold it, white space folded; None if nowhere.

    The snippet may begin and end inside a line; the citation always quotes whole lines.
    """
    quote = [line for _, line in _folded(text.split("\n"))]
    if not quote:
        return None
    for document in (document for role in roles for document in evidence.of(role)):
        span = next(_holding(_folded(document.lines), quote), None)
        if span:
            return cite(document, *span)
    return None


def fold(line: str) -> str:
    """A line as it is compared: without terminal codes, white space folded to single blanks."""
    return " ".join((_ANSI.sub("", line) if "\x1b" in line else line).split())


def _folded(lines: Sequence[str]) -> list[tuple[int, str]]:
    """The lines that are not blank, folded, with their numbers."""
    folded = ((number, fold(line)) for number, line in enumerate(lines, 1))
    return [(number, line) for number, line in folded if line]


def _claims(citation: Citation, document: Document, first: int, last: int) -> bool:
    """Whether the claimed lines are the found ones; blank lines around them may be claimed too."""
    if not (citation.first <= first and last <= citation.last <= len(document.lines)) or citation.first < 1:
        return False
    around = document.lines[citation.first - 1 : first - 1] + document.lines[last : citation.last]
    return not any(fold(line) for line in around)


def _spans(lines: list[tuple[int, str]], quote: list[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    """First and last line of every place where the quoted lines stand one after another."""
    wanted = [line for _, line in quote]
    for at, (number, line) in enumerate(lines):
        if line == wanted[0] and [text for _, text in lines[at : at + len(wanted)]] == wanted:
            yield number, lines[at + len(wanted) - 1][0]


def _holding(lines: list[tuple[int, str]], quote: list[str]) -> Iterator[tuple[int, int]]:
    """First and last line of every place that holds the snippet, whose ends may lie inside a line."""
    if len(quote) == 1:
        yield from ((number, number) for number, line in lines if quote[0] in line)
        return
    head, *middle, tail = quote
    for at, (number, line) in enumerate(lines[: len(lines) - len(quote) + 1]):
        end_number, end = lines[at + len(quote) - 1]
        between = [text for _, text in lines[at + 1 : at + len(quote) - 1]]
        if line.endswith(head) and end.startswith(tail) and between == middle:
            yield number, end_number
