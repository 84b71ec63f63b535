"""Find what people edited on a page, and carry it into the page's data or the next version of the page.

Read back are the bold label under a finding's heading, `Reviewer:` lines, added paragraphs and the section `Actions
taken`. Any other edit stays on the page through a three-way merge of lines.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from evalscribe.errors import DataError
from evalscribe.git.command import Git, require_git
from evalscribe.ids import Frozen
from evalscribe.model.report import Report, ReportEntry, ReportNote, Section, replaced
from evalscribe.reports.markdown import blocks, fields, labels, notes
from evalscribe.reports.markdown.blocks import ConflictingEdits, PageBlock, UnreadableReport
from evalscribe.reports.markdown.labels import PageLabel
from evalscribe.reports.page import ACTIONS, NOTHING, SECTIONS, page_digest, render

_TITLE = re.compile(r"(\d+)[.)] +(.+)")
_ROW = re.compile(r"\|\s*\[?(\d+)\]?[^|]*\|(?:.*(?<!\\)\|){3}")
_MARKER = re.compile(r"(?:<{7}|>{7}|\|{7})(?: \S|$)")


class PageFinding(Frozen):
    """One finding as it stands on the page; line numbers count from 1."""

    number: int
    heading: int
    label: PageLabel | None
    """None if the label's line is gone."""
    label_line: int
    """The label's line, or the heading's if there is none."""
    reviewer: tuple[str, ...]
    reviewer_lines: tuple[int, ...]
    blocks: tuple[PageBlock, ...]
    """What stands below the heading."""


class Page(Frozen):
    """The parts of a page that are read back."""

    lines: tuple[str, ...]
    findings: tuple[PageFinding, ...]
    rows: dict[int, int]
    """Line of each finding's row in the table of failures."""
    sections: dict[Section, tuple[PageBlock, ...]]
    """Blocks outside the findings, by section."""
    actions: str | None
    """Text of `Actions taken`; None if the section is gone."""
    actions_line: int

    @cached_property
    def by_number(self) -> dict[int, PageFinding]:
        return {finding.number: finding for finding in self.findings}


class LineEdit(NamedTuple):
    """An edited line outside the places that are read back."""

    line: int
    """Its line on the page; for a removed line, that of the line after it."""
    before: str | None
    """None for a line that was added."""
    now: str | None
    """None for a line that was removed."""


class PageEdits(Frozen):
    """A report with the edits of its page in force."""

    report: Report
    """The data with labels, reviewers, notes and actions of the page."""
    written: Report
    """The data alone."""
    base: str | None
    """The page as evalscribe wrote it; None if nobody has it any more."""
    rest: str
    """The page without the edits that `report` holds: what still differs from `base` was edited elsewhere."""
    rest_lines: tuple[int, ...]
    """The line of the page that each line of `rest` comes from; 0 for lines of the front matter."""
    page: str
    """The page as it is."""
    mergeable: bool = True
    """False for a page of an earlier form, whose other edits cannot be carried into a new page."""

    @property
    def elsewhere(self) -> tuple["LineEdit", ...]:
        """Edits in other places, by their line on the page."""
        if self.base is None or self.rest == self.base:
            return ()
        return tuple(self._line_edits(self.base.split("\n"), self.rest.split("\n")))

    def _line_edits(self, before: list[str], now: list[str]) -> Iterator["LineEdit"]:
        for kind, first, last, start, end in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
            if kind != "equal":
                old, new = [before[at] for at in range(first, last)], [now[at] for at in range(start, end)]
                for offset, (was, text) in enumerate(zip_longest(old, new)):
                    at = min(start + min(offset, len(new)), len(self.rest_lines) - 1)
                    yield LineEdit(max(1, self.rest_lines[at]), was, text)


def read_edits(text: str, written: Report, data: str, bases: Iterable[str] = ()) -> PageEdits:
    """Return what people edited on a page.

    Args:
        text: The page.
        written: The report of its data.
        data: File name of the data.
        bases: Texts that may be the page as evalscribe wrote it: from the store, and from git.

    Raises:
        UnreadableReport: A part that is read back cannot be read; the error gives the line.
        ConflictingEdits: The table and the finding have different labels.
    """
    plain = normalised(text)
    digest = _front(plain, "written")
    newer = int(_front(plain, "revision") or 0) > written.revision
    if page_digest(plain) == digest and newer:
        return _labels_of_newer_page(plain, written, data)
    if page_digest(plain) == digest:
        lines = tuple(range(1, plain.count("\n") + 2))
        return PageEdits(report=written, written=written, base=plain, rest=plain, rest_lines=lines, page=plain)
    rendered = render(written, _front(plain, "data") or data)
    candidates = chain((rendered,), map(normalised, bases))
    base = next((one for one in candidates if page_digest(one) == digest), None)
    page, old = parse_page(plain), parse_page(base or rendered)
    findings = tuple(_with_edits(number, entry, page, old) for number, entry in enumerate(written.entries, 1))
    _refuse_table_edits(page, old, findings)
    added = [ReportNote(section=name, text=note) for name in page.sections for note in _added(page, old, name)]
    report = replaced(
        written,
        entries=findings,
        actions_taken=written.actions_taken if page.actions is None else page.actions,
        notes=(*(note for note in written.notes if _still(note, page)), *added),
    )
    rest = list(_rest(page, old))
    return PageEdits(
        report=report,
        written=written,
        base=base,
        rest="\n".join(text for _, text in rest),
        rest_lines=tuple(line for line, _ in rest),
        page=plain,
    )


def _labels_of_newer_page(text: str, written: Report, data: str) -> PageEdits:
    """Read labels, reviewers and actions of a page whose data is of an earlier revision, as after a wrong merge."""
    page, old = parse_page(text), parse_page(render(written, data))
    entries = []
    for number, entry in enumerate(written.entries, 1):
        edited = _with_edits(number, entry, page, old)
        entries.append(replaced(edited, notes=entry.notes) if edited is not entry else entry)
    report = replaced(written, entries=tuple(entries), actions_taken=page.actions or written.actions_taken)
    return PageEdits(report=report, written=written, base=text, rest=text, page=text)


def normalised(text: str) -> str:
    """Return the text with `\\n` at line ends, without a byte order mark and without white space at line ends."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"


def _front(text: str, name: str) -> str | None:
    head = text.partition("\n---\n")[0]
    return next((line.partition(": ")[2] for line in head.split("\n") if line.startswith(f"{name}: ")), None)


def parse_page(text: str) -> Page:
    """Parse the parts of a page that are read back. Raises `UnreadableReport`."""
    lines = text.split("\n")
    sections: dict[Section, list[PageBlock]] = {"summary": []}
    section: Section = "summary"
    findings: list[tuple[PageBlock, list[PageBlock]]] = []
    actions: PageBlock | None = None
    for block in blocks.read(text):
        _refuse_markers(block)
        if block.kind == "heading" and block.level == 2:
            name = block.text.strip().casefold()
            if name == ACTIONS.casefold():
                actions = block
                break
            section = next((s for title, s in SECTIONS.items() if title.casefold() == name), section)
            sections.setdefault(section, [])
        elif section == "findings" and block.kind == "heading" and _TITLE.fullmatch(block.text):
            findings.append((block, []))
        elif section == "findings" and findings:
            findings[-1][1].append(block)
        else:
            sections[section].append(block)
    rows = {}
    for block in (block for block in sections.get("findings", ()) if block.kind == "table"):
        for row in block.items:
            if match := _ROW.match(row.source):
                rows[int(match[1])] = row.line
    return Page(
        lines=tuple(lines),
        findings=tuple(_findings(findings)),
        rows=rows,
        sections={name: tuple(part) for name, part in sections.items()},
        actions=notes.parse_actions(text, actions).strip("\n") if actions else None,
        actions_line=actions.line if actions else len(lines),
    )


def _refuse_markers(block: PageBlock) -> None:
    if block.kind != "fence":
        for at, line in enumerate(block.source.split("\n")):
            if _MARKER.match(line):
                raise UnreadableReport("this is a conflict marker of git: settle the merge first", block.line + at)


def _findings(parts: Iterable[tuple[PageBlock, list[PageBlock]]]) -> Iterator[PageFinding]:
    lines: dict[int, int] = {}
    for title, below in parts:
        match = _TITLE.fullmatch(title.text)
        assert match, "checked by the caller"
        number = int(match[1])
        if lines.setdefault(number, title.line) != title.line:
            raise UnreadableReport(f"there are two findings {number}", lines[number], title.line)
        yield _finding(number, title, below)


def _finding(number: int, title: PageBlock, below: list[PageBlock]) -> PageFinding:
    label, at = _label(below)
    reviewer: list[str] = []
    reviewer_at: list[int] = []
    for text, line in _texts(below):
        before, said = fields.split_reviewer(text)
        if said:
            reviewer += said
            reviewer_at += range(line + len(before), line + text.count("\n") + 1)
    return PageFinding(
        number=number,
        heading=title.line,
        label=label,
        label_line=at or title.line,
        reviewer=tuple(reviewer),
        reviewer_lines=tuple(reviewer_at),
        blocks=tuple(below),
    )


def _texts(below: Iterable[PageBlock]) -> Iterator[tuple[str, int]]:
    """Yield the text of paragraphs and list items with their lines."""
    for block in below:
        if block.kind in ("paragraph", "blockquote"):
            yield re.sub(r"(?m)^ {0,3}> ?", "", block.source), block.line
        for item in block.items if block.kind in ("bullet_list", "ordered_list") else ():
            yield re.sub(r"^ *[-*+] +", "", item.source), item.line


def _label(below: Sequence[PageBlock]) -> tuple[PageLabel | None, int | None]:
    """Return the label and its line. Raises `UnreadableReport` if a bold word in its place is not a label."""
    first = next((block for block in below if block.kind == "paragraph"), None)
    line = first.source.split("\n")[0].strip() if first else ""
    if first is None or not line.startswith(("**", "~~", "__")):
        return None, None
    return labels.parse(line.partition("·")[0].strip(), first.line), first.line


def _with_edits(number: int, entry: ReportEntry, page: Page, old: Page) -> ReportEntry:
    now, then = page.by_number.get(number), old.by_number.get(number)
    if now is None or then is None:
        return entry
    changes: dict[str, object] = {}
    if now.label is not None and now.label != then.label:
        kind = labels.kind_in_force(now.label, then.label, entry.judge, entry.cause_kind)
        changes |= {
            "classification": now.label.classification,
            "uncertain": now.label.uncertain and now.label.classification == entry.classification,
            "cause_kind": kind,
        }
        alone = entry.judge and entry.judge.classification == now.label.classification and not now.reviewer
        if alone and kind != entry.cause_kind:
            changes["reviewer"] = (
                f"kind {kind}, not {entry.cause_kind}" if kind else f"not of kind {entry.cause_kind}",
            )
    if now.reviewer != then.reviewer:
        changes["reviewer"] = now.reviewer
    added = tuple(_added_blocks(now.blocks, then.blocks))
    kept = tuple(note for note in entry.notes if any(notes.parse(block) == note for block in now.blocks))
    if added or kept != entry.notes:
        changes["notes"] = (*kept, *(notes.parse(block) for block in added))
    return replaced(entry, **changes) if changes else entry


def _added_blocks(now: Sequence[PageBlock], then: Sequence[PageBlock]) -> Iterator[PageBlock]:
    """Yield paragraphs that a person added; a reworded one is not an addition."""
    new, old = ([_without_reviewer(block) for block in part] for part in (now, then))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, first_old, last_old, first, last in matcher.get_opcodes():
        extra = (last - first) - (last_old - first_old)
        if kind == "insert":
            yield from (now[at] for at in range(first, last) if new[at] and now[at].kind != "heading")
        elif kind == "replace" and extra > 0:
            # The most similar ones are rewordings.
            by_likeness = sorted(range(first, last), key=lambda at: _likeness(new[at], old[first_old:last_old]))
            yield from (now[at] for at in sorted(by_likeness[:extra]) if new[at])


def _likeness(text: str, others: Sequence[str]) -> float:
    return max(SequenceMatcher(None, text[:500], other[:500]).quick_ratio() for other in others)


def _without_reviewer(block: PageBlock) -> str:
    """Return the block's source without the label and `Reviewer:` lines, which are read on their own."""
    if block.kind not in ("paragraph", "bullet_list"):
        return block.source
    own, _ = fields.split_reviewer(re.sub(r"(?m)^ *[-*+] +", "", block.source))
    label = own[:1] and own[0].strip().startswith(("**", "~~", "__"))
    return "\n".join(own[1:] if label else own)


def _added(page: Page, old: Page, section: Section) -> Iterator[str]:
    for block in _added_blocks(page.sections[section], old.sections.get(section, ())):
        if block.kind not in ("table",) and block.text != NOTHING:
            yield notes.parse(block)


def _still(note: ReportNote, page: Page) -> bool:
    """Return whether the page still has a note of the data."""
    here = [notes.parse(block) for block in page.sections.get(_place(note.section), ())]
    return note.text in here


def _place(section: Section) -> Section:
    return "findings" if section == "classification" else "summary" if section == "steps" else section


def _refuse_table_edits(page: Page, old: Page, entries: Sequence[ReportEntry]) -> None:
    for number, line in page.rows.items():
        before = old.rows.get(number)
        if before is None or number > len(entries) or page.lines[line - 1] == old.lines[before - 1]:
            continue
        now, then = _row_label(page.lines[line - 1], line), _row_label(old.lines[before - 1], before)
        if now != then and now is not None and now != labels.of(entries[number - 1]):
            at = page.by_number[number].label_line if number in page.by_number else line
            raise ConflictingEdits(
                f"the table says {labels.render(now)}, the finding {labels.render(labels.of(entries[number - 1]))}; "
                "correct the label under the finding's heading",
                line,
                at,
            )


def _row_label(row: str, line: int) -> PageLabel | None:
    """Return the first cell that is a label."""
    for cell in re.split(r"(?<!\\)\|", row):
        try:
            return labels.parse(cell.replace(", proved)", ")").replace("(proved)", "").strip(), line)
        except UnreadableReport:
            continue
    return None


def _rest(page: Page, old: Page) -> Iterator[tuple[int, str]]:
    """Yield the lines of the page, with their numbers, and with the edits that are read back undone."""
    undone: dict[int, list[str]] = {}
    for finding in page.findings:
        then = old.by_number.get(finding.number)
        if then is None:
            continue
        _undo_finding(finding, page, then, old, undone)
    for number, line in page.rows.items():
        if number in old.rows and _row_label(page.lines[line - 1], line) is not None:
            undone[line] = [_with_label(page.lines[line - 1], old.lines[old.rows[number] - 1])]
    for name, part in page.sections.items():
        for block in _added_blocks(part, old.sections.get(name, ())):
            _drop(block, undone)
    front, old_front = _front_end(page.lines), _front_end(old.lines)
    yield from ((0, text) for text in old.lines[:old_front])
    for number, text in enumerate(page.lines[: page.actions_line - 1], 1):
        if number > front:
            yield from ((number, line) for line in undone.get(number, [text]))
    yield from ((page.actions_line, text) for text in old.lines[old.actions_line - 1 :])


def _undo_finding(
    now: PageFinding, page: Page, then: PageFinding, old: Page, undone: dict[int, list[str]]
) -> None:
    for line in now.reviewer_lines:
        undone[line] = []
    if now.label is not None and then.label is not None:
        label = _with_old_label(page.lines[now.label_line - 1], old.lines[then.label_line - 1])
        undone[now.label_line] = [label, *(old.lines[line - 1] for line in then.reviewer_lines)]
    for block in _added_blocks(now.blocks, then.blocks):
        _drop(block, undone)


def _with_old_label(line: str, old: str) -> str:
    """Return a finding's first line with the label of the old one, so that only edits behind it differ."""
    label, dot, own = old.partition("·")
    rest = line.partition("·")[2]
    return f"{label}{dot}{rest if rest.strip() else own}"


def _drop(block: PageBlock, undone: dict[int, list[str]]) -> None:
    """Drop a paragraph and the blank line before it."""
    for line in range(block.line, block.end + 1):
        undone[line] = []
    undone.setdefault(block.line - 1, [])


def _with_label(row: str, old: str) -> str:
    """Return the table row with the label of the old one, so that only other edits differ."""
    parts, before = (re.split(r"(?<!\\)\|", text) for text in (row, old))
    for at, cell in enumerate(parts):
        if len(parts) == len(before) and _row_label(f"|{cell}|", 1) is not None:
            parts[at] = before[at]
    return "|".join(parts)


def _front_end(lines: Sequence[str]) -> int:
    """Return how many lines the front matter has."""
    if not lines or lines[0] != "---":
        return 0
    return next((number for number, line in enumerate(lines[1:], 2) if line == "---"), 0)


def finding_line(edits: PageEdits, entry: ReportEntry) -> int:
    """Return the line of the heading of the finding that concerns the entry's first eval."""
    number = next(n for n, one in enumerate(edits.report.entries, 1) if set(one.paths) & set(entry.paths))
    lines = enumerate(edits.page.split("\n"), 1)
    return next((at for at, line in lines if re.match(rf"###\s+{number}[.)]", line)), 1)


class UnmergedEdits(DataError):
    """Edits outside the places that are read back could not be merged; the error names the lines."""


def merge_edits(edits: PageEdits, rendered: str) -> str:
    """Return the newly rendered page with the edits that people made elsewhere on the old one.

    Raises `UnmergedEdits` if they touch lines that changed, or if the page as it was written is unknown.
    """
    if edits.base is None:
        raise UnmergedEdits("neither the store nor git has the page as it was written")
    if edits.rest == edits.base:
        return rendered
    merged = merge_lines(edits.rest, edits.base, rendered)
    if merged is None:
        lines = ", ".join(str(edit.line) for edit in edits.elsewhere[:5])
        raise UnmergedEdits(f"edited lines and new text overlap (lines {lines})")
    return merged


def merge_lines(mine: str, base: str, theirs: str) -> str | None:
    """Return a three-way merge by git's `merge-file`; None if it conflicts. Raises `UsageError` without git."""
    require_git()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("mine", "base", "theirs")]
        for path, text in zip(paths, (mine, base, theirs), strict=True):
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
        done = Git(Path(folder)).run("merge-file", "-p", "-q", *(path.name for path in paths))
    return None if done.code else done.out.decode("utf-8", "surrogatepass")
