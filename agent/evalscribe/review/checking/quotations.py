"""Whether the quotations that a report prints are in the evidence, at their lines and with a true mark.

A report prints less than the judge quoted: at most twelve lines of at most 200 characters, control characters left out.
What is compared is therefore what it would print of the document's own lines.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evalscribe.judging.quotations import fold_line
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.report import SNIPPET_LINES, Snippet
from evalscribe.proofread.parts import FENCE, Part
from evalscribe.proofread.said import Said
from evalscribe.report_markdown import snippets
from evalscribe.report_markdown.blocks import Block
from evalscribe.report_markdown.unreadable import UnreadableReport


class Quotation(NamedTuple):
    line: int
    snippet: Snippet


def quotations(part: Part) -> tuple[Quotation, ...]:
    """Those of one finding, with the line that each begins on."""
    block = _fence(part)
    if block is None:
        return ()
    try:
        found = snippets.parse(block)
    except UnreadableReport:
        return ()
    placed = []
    at = block.line + 1
    for snippet in found:
        placed.append(Quotation(at, snippet))
        at += snippet.last - snippet.first + 1
    return tuple(placed)


def compared(quoted: Sequence[Quotation], evidence: Evidence) -> Iterator[Said]:
    """What is wrong with the quotations of a finding."""
    for line, snippet in quoted:
        document = evidence.document(snippet.role, snippet.path) or _renamed(evidence, snippet)
        if document is None:
            if snippet.status != "unverified":
                yield Said(line, "error", f"forged or outdated: the evidence has no {snippet.role} {snippet.path!r}")
        elif snippet.status == "unverified":
            yield from _wrongly_doubted(line, snippet, document)
        elif not _stands_at(snippet, document, snippet.first):
            yield Said(line, "error", _elsewhere(snippet, document))


def _wrongly_doubted(line: int, snippet: Snippet, document: Document) -> Iterator[Said]:
    """Only a warning: of a longer quotation that is wrong further down, the printed part may be there."""
    if _stands_at(snippet, document, snippet.first):
        where = f"{snippet.role} {snippet.path}:{snippet.first}"
        yield Said(line, "warning", f"marked as unverified, but what is printed stands at {where}")


def _elsewhere(snippet: Snippet, document: Document) -> str:
    where = f"{snippet.role} {snippet.path}"
    wanted = [fold_line(line) for line in snippet.text.split("\n")]
    for first in range(1, len(document.lines) + 1):
        if fold_line(document.lines[first - 1])[:20] == wanted[0][:20] and _stands_at(snippet, document, first):
            return f"the quotation stands at {where}:{first}, not at line {snippet.first}"
    return f"forged or outdated: the quotation is not in the evidence at {where}:{snippet.first}, nor elsewhere in it"


def _stands_at(snippet: Snippet, document: Document, first: int) -> bool:
    lines = document.lines[first - 1 : first - 1 + SNIPPET_LINES]
    if not lines or first > len(document.lines):
        return False
    printed = Snippet(role=snippet.role, path=snippet.path, first=first, text="\n".join(lines)).text.split("\n")
    quoted = snippet.text.split("\n")
    return list(map(fold_line, printed[: len(quoted)])) == list(map(fold_line, quoted))


def _renamed(evidence: Evidence, snippet: Snippet) -> Document | None:
    """The document whose name is printed like this."""
    named = (document for document in evidence.of(snippet.role))
    return next((d for d in named if _printed(d) == snippet.path), None)


def _printed(document: Document) -> str:
    return Snippet(role=document.role, path=document.path, first=1, text="").path


def _fence(part: Part) -> Block | None:
    """The finding's first fence that is ours."""
    opened, mark = 0, ""
    for at, line in enumerate(part.lines):
        fence = FENCE.fullmatch(line)
        if not mark:
            opened, mark = at, fence[1] if fence else ""
        elif fence and fence[1].startswith(mark) and not fence[2].strip():
            text = "\n".join([*part.lines[opened + 1 : at], ""])
            block = Block(kind="fence", line=part.line + opened, source="", text=text)
            if snippets.is_ours(block):
                return block
            mark = ""
    return None
