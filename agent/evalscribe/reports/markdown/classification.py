"""Classification table and failed steps: generated, but a label corrected in the table counts."""

from collections import Counter
from collections.abc import Mapping, Sequence

from evalscribe.ids import Frozen
from evalscribe.model.report import Report, ReportEntry
from evalscribe.reports.markdown import inline, labels, notes
from evalscribe.reports.markdown.blocks import PageBlock, UnreadableReport
from evalscribe.reports.markdown.labels import PageLabel

STEPS_HEADING = "Failures by step"
NO_STEP = "–"


def render_steps(report: Report) -> list[str]:
    """Steps as they first occur among the findings, so that a changed count is a changed line."""
    counts: Counter[str | None] = Counter()
    for entry in report.entries:
        counts[entry.step] += len(entry.evals)
    rows = [inline.row(step_name(step), str(count)) for step, count in counts.items()]
    table = ["| Step | Failed |", "|---|--:|", *rows] if rows else ["None."]
    return [f"## {STEPS_HEADING}", *table, *notes.of(report, "steps")]


def step_name(step: str | None) -> str:
    return inline.name(step) if step is not None else NO_STEP


def parse_step_name(cell: str) -> str | None:
    return inline.uncode(cell) if cell != NO_STEP else None


HEADING = "Classification"


class ClassificationRow(Frozen):
    line: int
    path: str
    """Of a group: how many it has."""
    url: str | None
    step: str | None
    label: PageLabel
    why: str


def render(report: Report) -> list[str]:
    rows = [_row(number, entry) for number, entry in enumerate(report.entries, 1)]
    table = ["| # | Eval | Step | Label | Seen | Why |", "|--:|---|---|---|---|---|", *rows] if rows else ["None."]
    return [f"## {HEADING}", *table, *notes.of(report, "classification")]


def subject(entry: ReportEntry) -> str:
    """An eval's path, or how many evals the group has."""
    return inline.printed_path(entry.evals[0].path) if len(entry.evals) == 1 else f"{len(entry.evals)} evals"


def _row(number: int, entry: ReportEntry) -> str:
    url = entry.evals[0].url if len(entry.evals) == 1 else None
    label = labels.render(labels.of(entry))
    eval_ = inline.link(subject(entry), url)
    return inline.row(str(number), eval_, step_name(entry.step), label, entry.recurrence.kind, entry.why)


def parse(blocks: Sequence[PageBlock]) -> Mapping[int, ClassificationRow]:
    """Rows by number. Raises `UnreadableReport`."""
    table = table_of(blocks)
    rows: dict[int, ClassificationRow] = {}
    for row in table.items[1:] if table else ():
        number = row.cells[0] if row.cells else ""
        if not number.isdecimal() or len(row.cells) < 6 or int(number) in rows:
            raise UnreadableReport(
                "a row of the classification table has no number of its own or lacks cells", row.line
            )
        rows[int(number)] = _parse_row(row)
    return rows


def table_of(blocks: Sequence[PageBlock]) -> PageBlock | None:
    return next((block for block in blocks if block.kind == "table"), None)


def _parse_row(row: PageBlock) -> ClassificationRow:
    path, url = inline.parse_link(row.cells[1])
    return ClassificationRow(
        line=row.line,
        path=inline.uncode(path),
        url=url,
        step=parse_step_name(row.cells[2]),
        label=labels.parse(row.cells[3], row.line),
        why=row.cells[5],
    )
