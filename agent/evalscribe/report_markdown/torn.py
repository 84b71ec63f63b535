"""What is wrong with a page of which a part is gone: which line a person has to look at."""

import re
from collections.abc import Sequence

from evalscribe.report_markdown import snippets
from evalscribe.report_markdown.blocks import Block
from evalscribe.report_markdown.unreadable import UnreadableReport

MARKER = re.compile(r"(?:<{7}|>{7}|\|{7})(?: \S|$)")
SWALLOWING = ("fence", "html_block", "code_block", "blockquote")


def refuse_markers(page: Sequence[Block]) -> None:
    """Raises `UnreadableReport` at the first conflict marker; one that a whole quotation of ours holds is evidence."""
    for block in page:
        lines = block.source.split("\n")
        at = next((at for at, line in enumerate(lines) if MARKER.match(line)), None)
        if at is not None and not _quoted(block):
            raise UnreadableReport("this is a conflict marker of git: settle the merge first", block.line + at)


def _quoted(block: Block) -> bool:
    try:
        return block.kind == "fence" and snippets.is_ours(block) and bool(snippets.parse(block))
    except UnreadableReport:
        return False


def missing(what: str, heading: str, page: Sequence[Block], following: int) -> UnreadableReport:
    """Why there is no such heading: something swallowed it, it lost its marks, or it is gone before line `following`.

    `heading` is a pattern of its text.
    """
    wanted = re.compile(rf"\W*{heading}", re.IGNORECASE)
    for block in page:
        for at, line in enumerate(block.source.split("\n")):
            if wanted.match(line) and not line.startswith("|"):
                if block.kind in SWALLOWING:
                    return UnreadableReport(
                        f"{what} stands inside of what begins here; is its end missing?", block.line
                    )
                return UnreadableReport(
                    f"{what} is missing: this line is no heading of the right level", block.line + at
                )
    return UnreadableReport(f"{what} is missing before this line", following)
