"""What people add between our lines: quoted, so that it is theirs and can never be read as structure."""

from collections.abc import Iterable, Sequence

from evalscribe.model.report import Report, Section
from evalscribe.report_markdown.blocks import Block


def render(notes: Iterable[str]) -> list[str]:
    """Each note as a quotation of its own, a blank line before it."""
    lines: list[str] = []
    for note in notes:
        lines += ["", *(f"> {line}".rstrip() for line in note.split("\n"))]
    return lines


def parse(block: Block) -> str:
    """The text of a quotation; any other block is its own text."""
    if block.kind != "blockquote":
        return block.source
    return "\n".join(_unquoted(line) for line in block.source.split("\n"))


def of(report: Report, section: Section) -> list[str]:
    """The lines of a section's notes."""
    return render(note.text for note in report.notes if note.section == section)


def rest(blocks: Sequence[Block], known: Iterable[Block | None]) -> list[str]:
    """Text of the blocks that are not ours."""
    lines = {block.line for block in known if block is not None}
    return [parse(block) for block in blocks if block.line not in lines]


def _unquoted(line: str) -> str:
    bare = line.lstrip(" ")
    return bare[1:].removeprefix(" ") if bare.startswith(">") else line
