"""Where a finding stands on the page, so that a correction can be written there and nowhere else."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

from evalscribe.ids import Frozen
from evalscribe.model.finding import CauseKind
from evalscribe.model.report import JudgeLabel
from evalscribe.reports.markdown import fields, findings, labels
from evalscribe.reports.markdown import labels as classification
from evalscribe.reports.markdown.blocks import PageBlock
from evalscribe.reports.markdown.labels import PageLabel
from evalscribe.reports.markdown.page import PageParser

MARKER = re.compile(r" *[-*+] +")


class FindingLocation(Frozen):
    """The lines of one finding, counted from 1."""

    number: int
    subject: str
    """As printed: the eval's path, or how many evals the group has."""
    heading: int
    row: int
    """Its line in the classification table."""
    title: str
    """Text of the heading up to the label."""
    label: PageLabel
    """The heading's."""
    row_label: PageLabel
    judge: JudgeLabel | None
    cause_kind: CauseKind | None
    """That of the `Cause:` line."""
    reviewer: tuple[str, ...]
    facts_end: int
    """The line after which another fact belongs."""
    marker: str
    """What a fact starts with, as the editor of this page writes lists."""


def locate_findings(text: str) -> Mapping[int, FindingLocation]:
    """Each finding's place by its number, whether or not edits contradict each other. Raises `UnreadableReport`."""
    page = PageParser(text, {})
    rows = classification.parse_table(page.sections.get("classification", ()))
    found = [_place(part, rows) for part in findings.parts(page.sections.get("findings", ()))]
    return {place.number: place for place in found}


def _place(part: Sequence[PageBlock], rows: Mapping[int, classification.ClassificationRow]) -> FindingLocation:
    title = part[0]
    match, row = findings.titled(title, rows)
    body = findings.FindingBody(part[1:])
    known = fields.parse(body.facts)
    judge = known.get("judge")
    last = _last_fact(part[1:])
    marker = MARKER.match(last.source) if last else None
    return FindingLocation(
        number=int(match[1]),
        subject=match[2],
        heading=title.line,
        row=row.line,
        title=title.text[: match.start(3)],
        label=labels.parse(match[3], title.line),
        row_label=row.label,
        cause_kind=cast(CauseKind | None, known.get("cause_kind")),
        judge=judge if isinstance(judge, JudgeLabel) else None,
        reviewer=tuple(body.reviewer),
        facts_end=last.end if last else title.end,
        marker=marker[0] if marker else "- ",
    )


def _last_fact(body: Sequence[PageBlock]) -> PageBlock | None:
    """The last item of the first list that states facts."""
    lists = (block.items for block in body if block.kind == "bullet_list")
    return next((items[-1] for items in lists if any(map(_is_fact, items))), None)


def _is_fact(item: PageBlock) -> bool:
    return fields.names(item.text) is not None or bool(fields.split_reviewer(item.text)[1])
