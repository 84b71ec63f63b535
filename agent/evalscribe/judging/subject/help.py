"""How to cite, as a judge is told: the instruction beside the grammar that `judging.marks` reads."""

from collections.abc import Sequence

_RUN = """\
- `[R0]` cites an agent run as a whole, `[T0]` a transcript."""
_BLOCK = """\
- `[T0B1]` cites block 1 of transcript 0 as a whole; `[T0B1:<RANGE>text</RANGE>]` cites what it says there."""
_METADATA = """\
- `[{mark}.key]`, with dots for keys inside keys, cites a value of that metadata."""
_RESULT = """\
- `[A0]` cites an earlier result as a whole; `[A0:<RANGE>text</RANGE>]` cites what it says."""
_ITEM = """\
- `[{mark}]` cites that item as a whole; `[{mark}:<RANGE>text</RANGE>]` cites what it says."""
_DOCUMENT = """\
- `[role path:3-9]` cites lines of a document, role and path as they stand in its opening delimiter, `[role path:3]` one
  line; `[role path:3-9:<RANGE>text</RANGE>]` cites what these lines say."""
_RULES = """\
What stands between <RANGE> and </RANGE> is compared with that very item: copy it exactly and in whole words, keep its
line breaks, leave nothing out, and leave out line numbers and delimiters. White space may differ. One citation per
statement is enough; a citation that does not hold counts against the answer."""


def citation_help(marks: Sequence[str], *, numbered: bool) -> str:
    """Instructions for a subject with these marks; `numbered`: it has documents with line numbers as well."""
    metadata = next((mark for mark in marks if mark.endswith("M")), None)
    named = next((mark for mark in marks if mark.isalpha()), None)
    ways = (
        _RUN if "R0" in marks else None,
        _BLOCK if any(mark.startswith("T") and "B" in mark for mark in marks) else None,
        _METADATA.format(mark=metadata) if metadata else None,
        _DOCUMENT if numbered else None,
        _ITEM.format(mark=named) if named else None,
        _RESULT if "A0" in marks else None,
    )
    listed = "\n".join(way for way in ways if way)
    return f"Cite what you rely on, in square brackets, inside the strings that may hold citations:\n{listed}\n{_RULES}"
