"""Check the generated lines of a page against the rest of the report."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from evalscribe.model.finding import CAUSE_KINDS, NOT_THE_MODEL, CauseKind
from evalscribe.model.report import ProblemLevel, Report, ReportEntry
from evalscribe.reports.markdown import fields, labels, summary
from evalscribe.reports.markdown import summary as net_impact
from evalscribe.reports.markdown.blocks import UnreadableReport
from evalscribe.reports.markdown.labels import PageLabel
from evalscribe.reports.markdown.page import render
from evalscribe.reports.problems import LineProblem
from evalscribe.text import cut, pluralise

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
SECTION = re.compile(r"##\s+(.*?)[\s#]*")
FINDING = re.compile(r"###\s+\d+[.)]\s")
TOP = "top"
FINDINGS = "findings"
LAST = "actions taken"
"""The section that people write; everything after it is theirs too."""


class PagePart(NamedTuple):
    line: int
    """Number of its first line, from 1."""
    lines: list[str]
    """Without line ends and leading white space."""

    def numbered(self) -> Iterator[tuple[int, str]]:
        return enumerate(self.lines, self.line)


def page_parts(text: str) -> dict[str, PagePart]:
    """Split a page into `top` without the front matter, sections by lower-case name, and `findings/1` … in order."""
    lines = lines_of(text)
    start = _after_front_matter(lines)
    found = {TOP: PagePart(start + 1, [])}
    key = TOP
    findings = 0
    for at, line, fenced in _fenced(lines, start):
        section = None if fenced else SECTION.fullmatch(line)
        if section and key != LAST:
            key = section[1].casefold()
            found.setdefault(key, PagePart(at + 1, []))
        elif not fenced and key.startswith(FINDINGS) and FINDING.match(line):
            findings += 1
            key = f"{FINDINGS}/{findings}"
            found[key] = PagePart(at + 1, [])
        found[key].lines.append(line)
    return found


def lines_of(text: str) -> list[str]:
    """Return lines without trailing white space, which an editor may change."""
    return [line.rstrip() for line in text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def outside_fences(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines outside fences."""
    lines = lines_of(text)
    return ((at + 1, line) for at, line, fenced in _fenced(lines, _after_front_matter(lines)) if not fenced)


def _after_front_matter(lines: list[str]) -> int:
    if lines[0] != "---":
        return 0
    return next((at for at, line in enumerate(lines[1:], 2) if line == "---"), 0)


def _fenced(lines: list[str], start: int) -> Iterator[tuple[int, str, bool]]:
    """Yield index and text of each line, and whether it belongs to a fence, including the fence's own lines."""
    fence = ""
    for at, line in enumerate(lines[start:], start):
        mark = FENCE.fullmatch(line)
        if fence:
            yield at, line, True
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        else:
            opens = mark is not None and not (mark[1][0] == "`" and "`" in mark[2])
            fence = mark[1] if mark and opens else ""
            yield at, line, opens


MARKERS = re.compile(r"^[\s>*+-]+|[`*_\\|]")
REVIEWER = re.compile(rf"^[\s>*+_#-]*{fields.REVIEWER.pattern}", re.IGNORECASE)
RULE = re.compile(r"[\s|:-]*")
"""An empty line or a table's separator, which an editor may realign."""
ROW = re.compile(r"\|\s*((?:[^|\\]|\\.)*?)\s*\|")
FACT = re.compile(r"- (Error|Missing|Cause|Judge|Seen):")
GONE = re.compile(r"- (?:Resolved|No longer failing)\b")
IMPACT = "net impact"


class LineDifference(NamedTuple):
    line: int
    key: str
    """Kind of the generated line: `title`, `summary`, `row …`, `fact …`, `heading`; empty for any other."""
    said: str | None
    """The actual text; None if the line is missing."""
    meant: str | None
    """The expected text; None if no such line belongs there."""


def differences(section: str, actual: PagePart, expected: PagePart) -> Iterator[LineDifference]:
    """Yield differing lines, ignoring preserved additions by people, white space, emphasis and line breaks."""
    here, there = _logical(section, actual), [line for _, line in _logical(section, expected)]
    known = set(map(bare, there))
    present = {bare(line) for _, line in here}
    missing = {_key(section, line) or line: line for line in there if bare(line) not in present and _says(line)}
    odd = [(number, line) for number, line in here if _says(line) and bare(line) not in known]
    kept = " ".join(map(bare, there)) if odd else ""
    for number, line in odd:
        key = _key(section, line)
        if key in missing:
            yield LineDifference(number, key, line, missing.pop(key))
        elif bare(line) not in kept:
            yield LineDifference(number, key, line, None)
    written = " ".join(bare(line) for _, line in here) if missing else ""
    for key, line in missing.items():
        if not REVIEWER.match(line) and bare(line) not in written:
            yield LineDifference(actual.line, key if key != line else "", None, line)


def bare(line: str) -> str:
    """Return a line's words, without list, quotation, table and code markers."""
    return " ".join(MARKERS.sub("", REVIEWER.sub("", line)).split())


def apart(said: str, meant: str) -> tuple[str, str]:
    """Return the differing words of two lines, with two words of context."""
    one, other = said.split(), meant.split()
    first = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    back = zip(reversed(one[first:]), reversed(other[first:]), strict=False)
    last = next((at for at, (a, b) in enumerate(back) if a != b), min(len(one), len(other)) - first)
    start = max(0, first - 2)
    return " ".join(one[start : len(one) - max(0, last - 2)]), " ".join(other[start : len(other) - max(0, last - 2)])


def _says(line: str) -> bool:
    return RULE.fullmatch(line) is None


def _logical(section: str, part: PagePart) -> list[tuple[int, str]]:
    """Yield numbered lines; the summary's first paragraph counts as one line."""
    lines = [(number, line) for number, line in part.numbered() if line]
    if section != TOP:
        return lines
    at = next((at for at, (_, line) in enumerate(lines) if line.startswith("**")), len(lines))
    end = at
    while end < len(lines) and lines[end][0] == lines[at][0] + end - at and not lines[end][1].startswith(("|", ">")):
        end += 1
    whole = [(lines[at][0], " ".join(line for _, line in lines[at:end]))] if at < end else []
    return [*lines[:at], *whole, *lines[end:]]


def _key(section: str, line: str) -> str:
    if section == TOP and line.startswith(("# ", "**")):
        return "title" if line.startswith("#") else "summary"
    if row := ROW.match(line):
        cell = row[1].split(" ")[0] if section == IMPACT else row[1]
        return f"row {bare(cell)}"
    if fact := FACT.match(line):
        return f"fact {fact[1]}"
    if GONE.match(line):
        return "resolved"
    return "heading" if line.startswith("### ") and section.startswith("findings/") else ""


MANY = 6
"""Maximum corrections for which every combination is tried."""
CELL = re.compile(r"(?<!\\)\|")
LABEL_CELL = 4
NUMBER = re.compile(r"###\s+(\d+)[.)]")
CAUSE = re.compile(r"- Cause:.*\(([a-z]+)\)")


class CorrectedFinding(NamedTuple):
    """A finding that a person edited."""

    line: int
    at: int
    """Index of the entry."""
    states: tuple[ReportEntry, ...]
    """The entry in force, and as it may have been when the lines were generated."""

    @property
    def changed(self) -> bool:
        """Return True if the label or kind may have changed, and not only the certainty."""
        return len({(one.classification, one.cause_kind) for one in self.states}) > 1


def corrections(report: Report, page: Mapping[str, PagePart]) -> list[CorrectedFinding]:
    rows = _row_labels(page.get("classification"))
    found = []
    for at, entry in enumerate(report.entries):
        part = page.get(f"{FINDINGS}/{at + 1}")
        said = _labels(part, rows) if part else []
        if part and (len(set(said)) > 1 or entry.reviewed):
            states = tuple(dict.fromkeys((entry, *_states(entry, said, part))))
            found.append(CorrectedFinding(part.line, at, states))
    return [one for one in found if len(one.states) > 1]


def before(report: Report, corrected: Sequence[CorrectedFinding]) -> Iterator[Report]:
    """Yield the report as it may have been when its lines were generated, the one in force first.

    With more than `MANY` corrections only these states are tried: confirmations as they are, then all as in force, all
    as
    the heading, all as the table, all as the judge decided.
    """
    for states in _choices(corrected):
        entries = list(report.entries)
        for one, entry in zip(corrected, states, strict=True):
            entries[one.at] = entry
        # `model_copy` would keep values derived from the other labels.
        fields = {name: getattr(report, name) for name in Report.model_fields}
        yield Report.model_construct(**(fields | {"entries": tuple(entries)}))


def _choices(corrected: Sequence[CorrectedFinding]) -> Iterator[Sequence[ReportEntry]]:
    if len(corrected) <= MANY:
        yield from product(*(one.states for one in corrected))
        return
    if sum(one.changed for one in corrected) <= MANY:
        yield from product(*(one.states if one.changed else one.states[:1] for one in corrected))
    for at in range(max(len(one.states) for one in corrected)):
        yield [one.states[min(at, len(one.states) - 1)] for one in corrected]


def label_cell(row: str) -> str:
    cells = CELL.split(row)
    return cells[LABEL_CELL].strip() if len(cells) > LABEL_CELL else ""


def without_label(row: str) -> list[str]:
    """Return the cells other than the label."""
    return [cell.strip() for at, cell in enumerate(CELL.split(row)) if at != LABEL_CELL]


def _row_labels(table: PagePart | None) -> dict[str, str]:
    rows = (CELL.split(line) for line in (table.lines if table else ()) if line.startswith("|"))
    return {cells[1].strip(): cells[LABEL_CELL] for cells in rows if len(cells) > LABEL_CELL}


def _labels(part: PagePart, rows: Mapping[str, str]) -> list[PageLabel]:
    """Return the labels of heading and row, as far as they can be parsed."""
    number = NUMBER.match(part.lines[0])
    sources = [part.lines[0].rpartition(":")[2], rows.get(number[1], "") if number else ""]
    return [label for source in sources if (label := _label(source, part.line))]


def _label(source: str, line: int) -> PageLabel | None:
    try:
        return labels.parse(source, line)
    except UnreadableReport:
        return None


def _states(entry: ReportEntry, said: Sequence[PageLabel], part: PagePart) -> Iterator[ReportEntry]:
    kind = _caused(part)
    for label in said:
        yield _as(entry, label, kind)
    judged = entry.judge.classification if entry.judge else None
    for uncertain in (entry.uncertain, not entry.uncertain):
        printed = kind if kind in NOT_THE_MODEL else None
        yield _as(entry, PageLabel(classification=judged, kind=printed, uncertain=uncertain), kind)


def _as(entry: ReportEntry, label: PageLabel, kind: CauseKind | None) -> ReportEntry:
    usual = None if kind in NOT_THE_MODEL else kind
    changes = {
        "classification": label.classification,
        "cause_kind": label.kind or usual,
        "uncertain": label.uncertain,
    }
    return entry.model_copy(update=changes)


def _caused(part: PagePart) -> CauseKind | None:
    match = next((match for line in part.lines if (match := CAUSE.fullmatch(line))), None)
    return next((kind for kind in CAUSE_KINDS if match and kind == match[1]), None)


CLASSIFICATION = "classification"
SHOWN = 160
COLUMNS = ("", "#", "Eval", "Step", "Label", "Seen", "Why")


def check_generated_lines(report: Report, page: Mapping[str, PagePart]) -> Iterator[LineProblem]:
    """Yield every generated line that differs from the rendering of `report`, which was read from the page."""
    expected = page_parts(render(report))
    corrected = corrections(report, page)
    touched = {f"{FINDINGS}/{one.at + 1}" for one in corrected}
    sums: list[LineDifference] = []
    behind = 0
    for section, part in page.items():
        if section == LAST or section not in expected:
            continue
        for found in differences(section, part, expected[section]):
            if found.key == "summary" or section == IMPACT:
                sums.append(found)
            elif _follows_later(section, found, touched):
                behind += 1
            else:
                yield _said(section, found)
    changed = [one for one in corrected if one.changed]
    # A confirmed doubt shows only in the first lines.
    for first, reviewed in ((True, corrected), (False, changed)):
        of_part = [found for found in sums if (found.key == "summary") == first]
        unexplained = _unexplained(report, of_part, reviewed)
        behind += len(of_part) - len(unexplained)
        level: ProblemLevel = "warning" if len(reviewed) > MANY else "error"
        yield from (_said("", found)._replace(level=level) for found in unexplained)
    if behind and corrected:
        yield _behind(behind, corrected)


def _follows_later(section: str, found: LineDifference, touched: Collection[str]) -> bool:
    """Return True for a label in the table, or a kind, that a correction made elsewhere has superseded.

    `touched` names the sections of the corrected findings.
    """
    if found.said is None or found.meant is None:
        return False
    if section == CLASSIFICATION and found.key.startswith("row"):
        same = list(map(bare, without_label(found.said))) == list(map(bare, without_label(found.meant)))
        return same and label_cell(found.said) != label_cell(found.meant)
    if found.key == "heading":
        return bare(found.said.rpartition(":")[0]) == bare(found.meant.rpartition(":")[0])
    return section in touched and found.key == "fact Cause"


def _unexplained(
    report: Report, sums: Sequence[LineDifference], corrected: Sequence[CorrectedFinding]
) -> Sequence[LineDifference]:
    """Return the sums that are wrong for the current report and for its states before the corrections."""
    if not sums or not corrected:
        return sums
    for earlier in before(report, corrected):
        lines = {bare(line) for line in (" ".join(_first_lines(earlier)), *net_impact.render_net_impact(earlier))}
        if all(found.said is not None and bare(found.said) in lines for found in sums):
            return ()
    return sums


def _first_lines(report: Report) -> Iterator[str]:
    """Yield the paragraph under the title."""
    for line in summary.render(report)[2:]:
        if not line:
            return
        yield line


def _said(section: str, found: LineDifference) -> LineProblem:
    if found.meant is None:
        what = f"{_short(found.said)} stands in a generated part and would be lost: say it in a paragraph of its own"
    elif found.said is None:
        what = f"a generated line is missing: {_short(found.meant)}"
    elif section == CLASSIFICATION and (column := _column(found.said, found.meant)):
        what = column
    elif found.key == "heading":
        what = f"the heading names {_short(found.said)}, the finding is about {_short(found.meant)}"
    else:
        said, meant = apart(found.said, found.meant)
        what = f"{_short(said)} does not follow from the rest of the report, which makes it {_short(meant)}"
    return LineProblem(found.line, "error", what)


def _column(said: str, meant: str) -> str | None:
    """Name the cell of a classification row that differs from its finding."""
    cells, others = without_label(said), without_label(meant)
    if len(cells) != len(others):
        return None
    names = [name for name in COLUMNS if name != "Label"]
    odd = (at for at, (a, b) in enumerate(zip(cells, others, strict=True)) if bare(a) != bare(b) and at < len(names))
    at = next(odd, None)
    if at is None:
        return None
    return f"the column {names[at]!r} says {_short(cells[at])}, the finding {_short(others[at])}"


def _behind(count: int, corrected: Sequence[CorrectedFinding]) -> LineProblem:
    numbers = ", ".join(str(one.at + 1) for one in corrected[:10]) + (" …" if len(corrected) > 10 else "")
    lines = f"{pluralise(count, 'generated line')} still {'says' if count == 1 else 'say'}"
    return LineProblem(
        corrected[0].line,
        "notice",
        f"corrected by a person: {numbers}; {lines} what was there before, which the next analysis of the run renews",
    )


def _short(text: str | None) -> str:
    return f"“{cut(' '.join((text or '').split()), SHOWN)}”"
