"""The classification table: generated, but a label corrected only here counts."""

from collections.abc import Mapping, Sequence

from evalscribe.ids import Frozen
from evalscribe.model.report import Report, ReportEntry
from evalscribe.report_markdown import inline, labels, notes, steps
from evalscribe.report_markdown.blocks import Block
from evalscribe.report_markdown.labels import Label
from evalscribe.report_markdown.unreadable import UnreadableReport

HEADING = "Classification"


class Row(Frozen):
    line: int
    path: str
    """Of a group: how many it has."""
    url: str | None
    step: str | None
    label: Label
    why: str


def render(report: Report) -> list[str]:
    rows = [_row(number, entry) for number, entry in enumerate(report.entries, 1)]
    table = ["| # | Eval | Step | Label | Seen | Why |", "|--:|---|---|---|---|---|", *rows] if rows else ["None."]
    return [f"## {HEADING}", *table, *notes.of(report, "classification")]


def subject(entry: ReportEntry) -> str:
    """An eval's path, or how many evals the group has."""
    return inline.path(entry.evals[0].path) if len(entry.evals) == 1 else f"{len(entry.evals)} evals"


def _row(number: int, entry: ReportEntry) -> str:
    url = entry.evals[0].url if len(entry.evals) == 1 else None
    label = labels.render(labels.of(entry))
    eval_ = inline.link(subject(entry), url)
    return inline.row(str(number), eval_, steps.name(entry.step), label, entry.recurrence.kind, entry.why)


def parse(blocks: Sequence[Block]) -> Mapping[int, Row]:
    """Rows by number. Raises `UnreadableReport`."""
    table = table_of(blocks)
    rows: dict[int, Row] = {}
    for row in table.items[1:] if table else ():
        number = row.cells[0] if row.cells else ""
        if not number.isdecimal() or len(row.cells) < 6 or int(number) in rows:
            raise UnreadableReport(
                "a row of the classification table has no number of its own or lacks cells", row.line
            )
        rows[int(number)] = _parse_row(row)
    return rows


def table_of(blocks: Sequence[Block]) -> Block | None:
    return next((block for block in blocks if block.kind == "table"), None)


def _parse_row(row: Block) -> Row:
    path, url = inline.parse_link(row.cells[1])
    return Row(
        line=row.line,
        path=inline.uncode(path),
        url=url,
        step=steps.parse_name(row.cells[2]),
        label=labels.parse(row.cells[3], row.line),
        why=row.cells[5],
    )
