"""What people did: the last section, kept as they wrote it."""

from evalscribe.model.report import Report
from evalscribe.report_markdown.blocks import Block

HEADING = "Actions taken"


def render(report: Report) -> list[str]:
    return [f"## {HEADING}", *(report.actions_taken or "None.").split("\n")]


def parse(text: str, heading: Block | None) -> str:
    """All text after the heading."""
    if heading is None:
        return ""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(lines[heading.line + heading.source.count("\n") :])
