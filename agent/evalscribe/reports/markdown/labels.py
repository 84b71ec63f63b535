"""Labels as they are printed, in headings and in the table: `OVERLY_STRICT (harness), uncertain`.

The classification table and failed steps are generated, but a label that is corrected in the table counts.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

from evalscribe.ids import Frozen
from evalscribe.model.finding import CAUSE_KINDS, CLASSIFICATIONS, NOT_THE_MODEL, CauseKind, Classification
from evalscribe.model.report import JudgeLabel, Report, ReportEntry
from evalscribe.reports.markdown import inline, notes
from evalscribe.reports.markdown.blocks import ConflictingEdits, PageBlock, UnreadableReport

UNCLASSIFIED = "UNCLASSIFIED"
ADORNED = (
    (re.compile(r"\\(?=[^\sA-Za-z0-9])"), ""),
    (re.compile(r"~~[^~]*~~"), ""),
    (re.compile(r"\[([^\[\]]*)\]\([^\s()]*\)"), r"\1"),
    (re.compile(r"[*`]|__+"), ""),
)
"""What people and editors put around a label: escapes, what they struck out, links, emphasis."""
LABEL = re.compile(r"([A-Za-z][A-Za-z_ -]*?)\s*(?:\(\s*([\w-]+)\s*\))?\s*(,\s*uncertain)?", re.IGNORECASE)
KIND_OF: dict[Classification | None, CauseKind | None] = {"MODEL_FAULT": "model", "AMBIGUOUS_TASK": "task"}
"""Where a person's label leaves no doubt about the kind of cause."""


class PageLabel(Frozen):
    classification: Classification | None
    kind: CauseKind | None = None
    """Only what is printed: a kind that did not judge the model, or one that a person wrote."""
    uncertain: bool = False


def of(entry: ReportEntry) -> PageLabel:
    kind = entry.cause_kind if entry.never_judged_the_model else None
    return PageLabel(classification=entry.classification, kind=kind, uncertain=entry.uncertain)


def render(label: PageLabel) -> str:
    kind = f" ({label.kind})" if label.kind else ""
    return f"{label.classification or UNCLASSIFIED}{kind}{', uncertain' if label.uncertain else ''}"


def parse(source: str, line: int) -> PageLabel:
    """Reads what people write too: `overly strict`, `**MODEL_FAULT**`. Raises `UnreadableReport`."""
    match = LABEL.fullmatch(_bare(source))
    word = re.sub(r"[ -]", "_", match[1]).upper() if match else ""
    if not match or word not in (*CLASSIFICATIONS, UNCLASSIFIED):
        raise UnreadableReport(
            f"{source!r} is not a label; labels are {', '.join((*CLASSIFICATIONS, UNCLASSIFIED))}", line
        )
    kind = match[2].lower() if match[2] else None
    if kind and kind not in CAUSE_KINDS:
        raise UnreadableReport(f"{kind!r} is not a kind of cause; kinds are {', '.join(CAUSE_KINDS)}", line)
    classification = None if word == UNCLASSIFIED else cast(Classification, word)
    return PageLabel(classification=classification, kind=cast(CauseKind | None, kind), uncertain=bool(match[3]))


def _bare(source: str) -> str:
    for adorned, bare in ADORNED:
        source = adorned.sub(bare, source)
    return source.strip().removesuffix(".").strip()


def settle(
    heading: PageLabel,
    row: PageLabel,
    lines: tuple[int, int],
    written: PageLabel | None,
    judge: JudgeLabel | None,
    kind: CauseKind | None,
) -> PageLabel:
    """The label in force: what a person edited since it was `written`, or, unknown, what differs from the judge's line.

    `kind` is the one of the `Cause:` line. Raises `ConflictingEdits` where heading and table were both edited.
    """
    if heading == row:
        return heading
    if written is not None:
        edited = (heading != written, row != written)
    elif heading.classification != row.classification:
        judged = judge.classification if judge else None
        edited = (heading.classification != judged, row.classification != judged)
    else:
        printed = kind if kind in NOT_THE_MODEL else None
        edited = (heading.kind != printed, row.kind != printed and row.kind != heading.kind)
    if edited == (True, True):
        raise ConflictingEdits(
            f"the heading says {render(heading)}, the classification table {render(row)}; make them equal", *lines
        )
    return row if edited[1] else heading


def kind_in_force(
    label: PageLabel, written: PageLabel | None, judge: JudgeLabel | None, kind: CauseKind | None
) -> CauseKind | None:
    """A kind in the label replaces that of `Cause:`; one that a person took out of the label is gone.

    Without the label last `written`, a kind counts as taken out where a person changed the label around it.
    """
    if label.kind or kind not in NOT_THE_MODEL:
        return label.kind or kind
    corrected = judge is None or judge.classification != label.classification
    taken_out = written.kind == kind if written else corrected
    return KIND_OF.get(label.classification) if taken_out else kind


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


def render_table(report: Report) -> list[str]:
    rows = [_row(number, entry) for number, entry in enumerate(report.entries, 1)]
    table = ["| # | Eval | Step | Label | Seen | Why |", "|--:|---|---|---|---|---|", *rows] if rows else ["None."]
    return [f"## {HEADING}", *table, *notes.of(report, "classification")]


def subject(entry: ReportEntry) -> str:
    """An eval's path, or how many evals the group has."""
    return inline.printed_path(entry.evals[0].path) if len(entry.evals) == 1 else f"{len(entry.evals)} evals"


def _row(number: int, entry: ReportEntry) -> str:
    url = entry.evals[0].url if len(entry.evals) == 1 else None
    label = render(of(entry))
    eval_ = inline.link(subject(entry), url)
    return inline.row(str(number), eval_, step_name(entry.step), label, entry.recurrence.kind, entry.why)


def parse_table(blocks: Sequence[PageBlock]) -> Mapping[int, ClassificationRow]:
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
        label=parse(row.cells[3], row.line),
        why=row.cells[5],
    )
