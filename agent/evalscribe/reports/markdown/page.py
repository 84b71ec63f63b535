"""What is wrong with a page of which a part is gone: which line a person has to look at."""

import re
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from evalscribe.model.finding import Recommendation, RecommendationGroup
from evalscribe.model.report import Report, ReportEntry, ReportNote, Section
from evalscribe.reports.markdown import (
    blocks,
    findings,
    front_matter,
    labels,
    notes,
    patterns,
    recommendations,
    run_table,
    snippets,
    summary,
)
from evalscribe.reports.markdown import (
    labels as classification,
)
from evalscribe.reports.markdown import (
    summary as net_impact,
)
from evalscribe.reports.markdown.blocks import PageBlock, UnreadableReport

MARKER = re.compile(r"(?:<{7}|>{7}|\|{7})(?: \S|$)")
SWALLOWING = ("fence", "html_block", "code_block", "blockquote")


def refuse_markers(page: Sequence[PageBlock]) -> None:
    """Raises `UnreadableReport` at the first conflict marker; one that a whole quotation of ours holds is evidence."""
    for block in page:
        lines = block.source.split("\n")
        at = next((at for at, line in enumerate(lines) if MARKER.match(line)), None)
        if at is not None and not _quoted(block):
            raise UnreadableReport("this is a conflict marker of git: settle the merge first", block.line + at)


def _quoted(block: PageBlock) -> bool:
    try:
        return block.kind == "fence" and snippets.is_ours(block) and bool(snippets.parse(block))
    except UnreadableReport:
        return False


def missing_parts(what: str, heading: str, page: Sequence[PageBlock], following: int) -> UnreadableReport:
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
                    f"{what} is missing: this line is not a heading of the right level", block.line + at
                )
    return UnreadableReport(f"{what} is missing before this line", following)


SECTIONS: dict[str, Section] = {
    classification.STEPS_HEADING: "steps",
    classification.HEADING: "classification",
    findings.HEADING: "findings",
    patterns.HEADING: "patterns",
    recommendations.HEADING: "recommendations",
    net_impact.NET_IMPACT: "net-impact",
}
NOTHING = "None."


def render(report: Report) -> str:
    """The report's markdown, ending with one line end."""
    sections = (
        classification.render_steps,
        classification.render_table,
        findings.render,
        patterns.render,
        recommendations.render,
        net_impact.render_net_impact,
        notes.render_actions,
    )
    lines = [*front_matter.render(report), *summary.render(report), "", *run_table.render(report)]
    for render_section in sections:
        lines += ["", *render_section(report)]
    return "\n".join(lines) + "\n"


def parse(text: str, written: Report | None = None) -> Report:
    """The report that a page holds, corrections by people in force.

    `written` is the report as evalscribe wrote it last: a label counts as edited where it differs from that, or,
    unknown, from the judge's own. Raises `UnreadableReport` with the lines, `ConflictingEdits` where two edits
    contradict each other.
    """
    known = {path: labels.of(entry) for entry in (written.entries if written else ()) for path in entry.paths}
    try:
        return PageParser(text, known).report()
    except ValidationError as error:
        raise UnreadableReport(str(error.errors()[0]["msg"]), 1) from error


class PageParser:
    """The blocks of each section; whatever no section knows as its own becomes a note there."""

    def __init__(self, text: str, written: Mapping[str, labels.PageLabel]) -> None:
        self.written = written
        self.sections: dict[Section, list[PageBlock]] = {"summary": []}
        self.notes: list[ReportNote] = []
        self.page = page = blocks.read(text)
        refuse_markers(page)
        self.headings: dict[Section, int] = {}
        self.front = front_matter.parse(page[0] if page else None)
        self.actions = notes.parse_actions(text, self._split(page[1:]))

    def _split(self, page: Sequence[PageBlock]) -> PageBlock | None:
        """Fill `sections`; the heading of the last one, which is read as plain text."""
        section: Section = "summary"
        for block in page:
            if block.kind == "heading" and block.level == 2:
                if block.text.strip().casefold() == notes.ACTIONS_HEADING.casefold():
                    return block
                section = self._start(block)
            else:
                self.sections[section].append(block)
        return None

    def _start(self, heading: PageBlock) -> Section:
        section = next((s for name, s in SECTIONS.items() if name.casefold() == heading.text.strip().casefold()), None)
        if section is None or section in self.sections:
            raise UnreadableReport(f"{heading.text!r} is not a section, or a second one of that name", heading.line)
        self.sections[section] = []
        self.headings[section] = heading.line
        return section

    def report(self) -> Report:
        for name, section in SECTIONS.items():
            if section not in self.sections:
                raise missing_parts(f"the section {name!r}", rf"{name}\W*$", self.page, self._after(section))
        run = self._summary()
        rows = classification.parse_table(self.sections["classification"])
        for section in ("steps", "classification", "net-impact"):
            self._keep(section, self.sections[section], table=True)
        entries = self._findings(rows)
        common = self._patterns(entries)
        return Report.model_validate(
            {
                **run,
                **self.front.model_dump(exclude={"run"}),
                "entries": entries,
                "patterns": common.patterns,
                "resolved": common.resolved,
                "follow_ups": common.follow_ups,
                "recommendations": self._recommendations(entries),
                "actions_taken": self.actions,
                "notes": self.notes,
            }
        )

    def _after(self, section: Section) -> int:
        """Line of the first heading that belongs below a section, or the last line."""
        order = list(SECTIONS.values())
        below = (self.headings[name] for name in order[order.index(section) :] if name in self.headings)
        return next(below, self.page[-1].end)

    def _summary(self) -> dict[str, object]:
        page = self.sections["summary"]
        table = classification.table_of(page)
        if table is None:
            raise UnreadableReport(
                "the table with the run's metadata is missing before this line", self._after("steps")
            )
        title = next((block for block in page if block.kind == "heading" and block.level == 1), None)
        first = next((block for block in page if summary.is_ours(block)), None)
        self.notes += (ReportNote(section="summary", text=note) for note in notes.rest(page, (table, title, first)))
        fields = run_table.parse(table)
        if fields["run"]["id"] != self.front.run:
            raise UnreadableReport("front matter and table name two runs", 1, table.line)
        return fields

    def _findings(self, rows: Mapping[int, classification.ClassificationRow]) -> tuple[ReportEntry, ...]:
        found = self.sections["findings"]
        self._keep("findings", findings.before(found))
        if findings.parts(found) and not rows:
            raise UnreadableReport("the table of this section is missing or torn", self.headings["classification"])
        entries = findings.parse(found, rows, self.written)
        missing = next((number for number in rows if number not in entries), None)
        if missing is not None:
            following = findings.following(found, missing) or self._after("patterns")
            error = missing_parts(f"finding {missing}", rf"{missing}[.)] ", self.page, following)
            raise UnreadableReport(error.reason, rows[missing].line, *error.lines)
        return tuple(entries.values())

    def _patterns(self, entries: tuple[ReportEntry, ...]) -> patterns.ParsedPatterns:
        page = self.sections["patterns"]
        items = [item for block in page if block.kind == "bullet_list" for item in block.items]
        parsed = patterns.parse(items, entries)
        self._keep("patterns", [block for block in page if block.kind != "bullet_list"], parsed.added)
        return parsed

    def _recommendations(self, entries: tuple[ReportEntry, ...]) -> list[Recommendation]:
        found: list[Recommendation] = []
        group: RecommendationGroup | None = None
        rest: list[PageBlock] = []
        for block in self.sections["recommendations"]:
            if block.kind == "heading" and block.level == 3:
                group = recommendations.group_of(block)
            elif block.kind == "bullet_list" and group:
                proposed, added = recommendations.parse(block.items, group, entries)
                found += proposed
                self._keep("recommendations", (), added)
            else:
                rest.append(block)
        self._keep("recommendations", rest)
        return found

    def _keep(
        self, section: Section, page: Sequence[PageBlock], added: Sequence[str] = (), table: bool = False
    ) -> None:
        """What is not ours is a note of its section."""
        ours = classification.table_of(page) if table else None
        rest = [block for block in page if block is not ours and block.text != NOTHING]
        self.notes += (ReportNote(section=section, text=text) for text in (*notes.rest(rest, ()), *added))
