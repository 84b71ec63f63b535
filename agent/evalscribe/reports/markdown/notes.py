"""Notes that people add between our lines, and the actions section that they write."""

from collections.abc import Iterable, Sequence

from evalscribe.model.report import Report, Section
from evalscribe.reports.markdown.blocks import PageBlock


def render(notes: Iterable[str]) -> list[str]:
    """Each note as a quotation of its own, a blank line before it."""
    lines: list[str] = []
    for note in notes:
        lines += ["", *(f"> {line}".rstrip() for line in note.split("\n"))]
    return lines


def parse(block: PageBlock) -> str:
    """The text of a quotation; any other block is its own text."""
    if block.kind != "blockquote":
        return block.source
    return "\n".join(_unquoted(line) for line in block.source.split("\n"))


def of(report: Report, section: Section) -> list[str]:
    """The lines of a section's notes."""
    return render(note.text for note in report.notes if note.section == section)


def rest(blocks: Sequence[PageBlock], known: Iterable[PageBlock | None]) -> list[str]:
    """Text of the blocks that are not ours."""
    lines = {block.line for block in known if block is not None}
    return [parse(block) for block in blocks if block.line not in lines]


def _unquoted(line: str) -> str:
    bare = line.lstrip(" ")
    return bare[1:].removeprefix(" ") if bare.startswith(">") else line


ACTIONS_HEADING = "Actions taken"


def render_actions(report: Report) -> list[str]:
    return [f"## {ACTIONS_HEADING}", *(report.actions_taken or "None.").split("\n")]


def parse_actions(text: str, heading: PageBlock | None) -> str:
    """All text after the heading."""
    if heading is None:
        return ""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(lines[heading.line + heading.source.count("\n") :])
