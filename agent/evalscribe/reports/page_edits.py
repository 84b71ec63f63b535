"""Find the edits that people made on a page, and apply them to the page's data or to the next version of the page.

The editable parts of a page are the bold label under a finding's heading, `Reviewer:` lines, added text (notes) and the
section `Actions taken`. Edits of these parts are applied to the data. Edits of other parts are kept on the page by a
three-way merge of lines.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from evalscribe.errors import DataError
from evalscribe.git.command import Git, require_git
from evalscribe.ids import Frozen
from evalscribe.model.finding import CLASSIFICATIONS
from evalscribe.model.report import Report, ReportEntry, ReportNote, Section, replaced
from evalscribe.reports import blocks, labels
from evalscribe.reports.blocks import ConflictingEdits, PageBlock, UnreadableReport
from evalscribe.reports.labels import PageLabel
from evalscribe.reports.page import ACTIONS, NOTHING, SECTIONS, member_lists, page_digest, render
from evalscribe.reports.reformatting import NumberedLines, TextChange, changes, undo_formatting
from evalscribe.text import block as tidy

# Without a bound, a heading of thousands of digits would make `int` raise `ValueError`.
_TITLE = re.compile(r"(\d{1,9})[.)] +(.+)")
_GROUP = re.compile(r"\d+ evals")
_ITEM = re.compile(r"^ *(?:[-*+]|\d+[.)])(?: +|$)")
# People also strike out the old label and write theirs after it, as in `~~MODEL_FAULT~~ **KNOWN_GAP**`.
_BOLD = re.compile(r"(?:~~[^~]*~~\s*)?(\*\*|__).+?\1(?:\s*\([\w\s,-]*\))?(?:\s*,\s*uncertain)?", re.IGNORECASE)
# A word in capitals, such as `MODEL_FALUT`, is refused as a misspelt label, even if it is not bold.
_SHOUTED = re.compile(r"[*_`~\\]*[A-Z]{4,}(?:[_-][A-Z]+)*\b")
_LABELS = re.compile("|".join((*CLASSIFICATIONS, labels.UNCLASSIFIED)))
_AT_END = re.compile(r"\s*[:–—-]+\s*(\S.*)")
_ALIKE = 0.6
"""Minimum similarity for a changed paragraph to count as a rewording of a generated paragraph.

Measured on the edits in `tests/support/report_edits.py`: rewordings of one or two words are above 0.8, unrelated
sentences below 0.5.
"""
_MOST_PAIRS = 10_000
"""Maximum number of pairs of changed paragraphs that are compared. If there are more pairs, no paragraph counts as
reworded.
"""


class TextPart(Frozen):
    """A block of the page, or some lines of a block.

    If a block has a label or `Reviewer:` lines, the part has only the other lines of the block.
    Line numbers are counted from 1.
    """

    owner: int | Section
    """Number of the finding that contains the part. For a part outside findings, the name of its section."""
    kind: str
    text: str
    first: int
    last: int


class PageFinding(Frozen):
    """A finding as parsed from the page. Line numbers are counted from 1."""

    number: int
    subject: str
    """The text of the finding's heading after the number."""
    members: str = ""
    """Markdown list of a group's evals. Empty for a finding on a single eval."""
    heading: int
    label: PageLabel | None = None
    """Label on the page. None if the line with the label is missing or cannot be parsed."""
    label_line: int
    """Number of the line with the label. If there is no label, number of the line with the heading."""
    tail: str = ""
    """Text in the label's line after the label."""
    problem: str = ""
    """Reason why the line with the label cannot be parsed. Empty if it can be parsed."""
    reviewer: tuple[str, ...] = ()
    reviewer_lines: tuple[int, ...] = ()


class ParsedPage(Frozen):
    """A parsed page."""

    lines: tuple[str, ...]
    findings: tuple[PageFinding, ...]
    parts: tuple[TextPart, ...]
    """All text except labels, `Reviewer:` lines and the section `Actions taken`."""
    headings: tuple[str, ...]
    """Headings of sections and findings."""
    actions: str | None
    """Text of the section `Actions taken`. None if the section is missing."""
    actions_line: int

    @property
    def by_number(self) -> dict[int, PageFinding]:
        return {finding.number: finding for finding in self.findings}


class LineEdit(NamedTuple):
    """An edited line outside the parts that are meant to be edited."""

    line: int
    """Number of the line on the page. For a removed line, number of the line that now stands in its place."""
    before: str | None
    """Text of the line as evalscribe wrote it. None for a line that was added."""
    now: str | None
    """Text of the line on the page. None for a line that was removed."""


class PageEdits(Frozen):
    """A report with people's edits applied, and what is needed to merge the edits into a new page."""

    report: Report
    """The report in the data file, but with the labels, reviewers, notes and actions that are on the page."""
    written: Report
    """The report in the data file, without the edits that people made on the page."""
    base: str
    """The page as evalscribe wrote it, without any text that people added to the editable parts."""
    base_known: bool
    """True if the page as evalscribe wrote it is available. If it is lost, `base` is rendered from the data instead."""
    other_text: str
    """The page on disk, but with all edits of its editable parts undone. Lines that differ from `base` are edits of
    other parts.
    """
    front: tuple[str, ...] = ()
    """Lines that a person added to the front matter."""
    numbers: tuple[int, ...] = ()
    """For each line of `other_text`, the number of this line on the page. Empty if `other_text` is the whole page."""
    page: str
    """Text of the page on disk."""
    mergeable: bool = True
    """False for a page in an older format. Edits of generated text on such a page cannot be merged into a new page."""

    @property
    def outside_edits(self) -> tuple["LineEdit", ...]:
        """Edits of lines outside the editable parts, in the order of the page."""
        return () if self.other_text == self.base else tuple(self._line_edits())

    def _line_edits(self) -> Iterator["LineEdit"]:
        before, now = self.base.split("\n"), self.other_text.split("\n")
        numbers = self.numbers or tuple(range(1, len(now) + 1))
        for kind, first, last, start, end in changes(before, now):
            if kind != "equal":
                for at, (was, text) in enumerate(zip_longest(before[first:last], now[start:end]), start):
                    yield LineEdit(numbers[min(at, end, len(numbers) - 1)], was, text)


def read_edits(text: str, written: Report, bases: Iterable[str] = ()) -> PageEdits:
    """Return the report of a page, with the edits that people made on the page.

    Args:
        text: Text of the page.
        written: The report in the page's data file.
        bases: Texts, from the store and from git, that the page could have had before people edited it.

    Raises:
        UnreadableReport: An editable part cannot be parsed. The message has the line.
        ConflictingEdits: A finding has a label in its heading that differs from the label below the heading.
    """
    plain = normalised(text)
    digest = _front(plain, "written")
    revision = _front(plain, "revision") or ""
    newer = revision.isdecimal() and int(revision) > written.revision
    if page_digest(plain) == digest and not newer:
        return PageEdits(report=written, written=written, base=plain, base_known=True, other_text=plain, page=plain)
    rendered = normalised(render(written))
    if page_digest(plain) == digest:
        return _labels_of_newer_page(plain, rendered, written)
    # Rendering the data usually gives the page. If not, `bases` is needed. It reads texts from git lazily.
    candidates = chain((rendered,), map(normalised, bases))
    base = next((candidate for candidate in candidates if page_digest(candidate) == digest), None)
    _refuse_quoted_markers(plain, base or rendered)
    lines = plain.split("\n")
    tidied = undo_formatting(NumberedLines(lines, list(range(1, len(lines) + 1))), (base or rendered).split("\n"))
    then = parse_page(base or rendered)
    try:
        return _Reading(plain, tidied, parse_page(tidied.text), then, written, base is not None).edits()
    except UnreadableReport as error:
        # The parser read the page without the changes of a formatter, so its line numbers are mapped back.
        numbers = (tidied.numbers[min(line, len(tidied.numbers)) - 1] for line in error.lines)
        raise type(error)(error.reason, *dict.fromkeys(numbers)) from error


def _labels_of_newer_page(text: str, rendered: str, written: Report) -> PageEdits:
    """Read the labels, reviewers and actions of a page that is newer than its data file.

    A wrong merge can leave a page in this state.
    """
    page, old = parse_page(text), parse_page(rendered)
    pairs, numbers = _same_findings(page.findings, old.findings), _numbers(written, old)
    entries = list(written.entries)
    for now in page.findings:
        then = pairs.get(now.number)
        if then is None or then.number not in numbers:
            continue
        entry = entries[numbers[then.number] - 1]
        changed: dict[str, object] = {}
        if now.label is not None and now.label.classification and now.label != then.label:
            changed |= _corrected(entry, now, then)
        if now.reviewer != then.reviewer:
            changed["reviewer"] = now.reviewer
        entries[numbers[then.number] - 1] = replaced(entry, **changed) if changed else entry
    report = replaced(written, entries=tuple(entries), actions_taken=page.actions or written.actions_taken)
    return PageEdits(report=report, written=written, base=text, base_known=True, other_text=text, page=text)


def normalised(text: str) -> str:
    r"""Return the text with `\n` as line end. A byte order mark, and whitespace at the ends of lines, are removed."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"


def _front(text: str, name: str) -> str | None:
    head = text.partition("\n---\n")[0]
    return next((line.partition(": ")[2] for line in head.split("\n") if line.startswith(f"{name}: ")), None)


def parse_page(text: str) -> ParsedPage:
    """Parse a page into its editable parts and its other text.

    Raises `UnreadableReport` if two findings have the same number or the page has conflict markers.
    """
    parts: list[TextPart] = []
    findings: list[tuple[PageBlock, list[PageBlock]]] = []
    headings: list[str] = []
    section: Section = "summary"
    actions: PageBlock | None = None
    for block in blocks.read(text):
        blocks.refuse_markers(block)
        name = block.text.strip() if block.kind == "heading" and block.level == 2 else ""
        # Everything below the heading of the actions is people's text, including further headings.
        if actions is not None or block.kind == "front_matter":
            continue
        if name.casefold() == ACTIONS.casefold():
            actions = block
            headings.append(ACTIONS)
            continue
        if new := next((s for title, s in SECTIONS.items() if title.casefold() == name.casefold()), None):
            section = new
            headings.append(name)
        title = _TITLE.fullmatch(block.text) if block.kind == "heading" and block.level <= 3 else None
        if section == "findings" and title:
            findings.append((block, []))
            headings.append(block.text)
        if section == "findings" and findings and not title and not new:
            findings[-1][1].append(block)
        else:
            owner: int | Section = int(title[1]) if section == "findings" and title else section
            parts += _parts(owner, block)
    _refuse_same_numbers(title for title, _ in findings)
    read = [_finding(title, below) for title, below in findings]
    lines = text.split("\n")
    return ParsedPage(
        lines=tuple(lines),
        findings=tuple(finding for finding, _ in read),
        parts=tuple(
            sorted(
                (*parts, *(part for _, finding_parts in read for part in finding_parts)), key=lambda part: part.first
            )
        ),
        headings=tuple(headings),
        actions=blocks.text_below(actions, text).strip("\n") if actions else None,
        actions_line=actions.line if actions else len(lines) + 1,
    )


def _parts(owner: int | Section, block: PageBlock) -> Iterator[TextPart]:
    """Yield a block as one part. For a list, yield each item as a separate part."""
    # Adding an item then changes no other part.
    for item in block.items if block.kind == "bullet_list" else (block,):
        text = f"{'#' * item.level} {item.text}" if item.kind == "heading" else item.source
        yield TextPart(owner=owner, kind=block.kind, text=text, first=item.line, last=item.end)


def _refuse_quoted_markers(page: str, written: str) -> None:
    """Raise `UnreadableReport` if a quotation has a conflict marker that is not evidence.

    A marker is evidence if the quotation in `written` has it, too. Fences that people added can contain any markers.
    """
    if not any(map(blocks.MARKER.match, page.split("\n"))):
        return
    quoted = Counter(line for block in blocks.read(written) for line in _fenced(block))
    for block in blocks.read(page):
        new = Counter(_fenced(block)) - quoted
        if len(new) == len(set(_fenced(block))):
            continue  # this block shares no line with a quotation
        for at, line in enumerate(block.source.split("\n")):
            if blocks.MARKER.match(line) and line in new:
                raise _conflict(block.line + at)


def _fenced(block: PageBlock) -> list[str]:
    """Return the lines inside a fence. For any other block, return an empty list."""
    return block.source.split("\n")[1:-1] if block.kind == "fence" else []


def _conflict(line: int) -> UnreadableReport:
    return UnreadableReport("this is a git conflict marker: resolve the merge first", line)


def _refuse_same_numbers(titles: Iterable[PageBlock]) -> None:
    lines: dict[int, int] = {}
    for title in titles:
        number = int(re.split("[.)]", title.text, maxsplit=1)[0])
        if number in lines:
            raise UnreadableReport(f"two findings have the number {number}", lines[number], title.line)
        lines[number] = title.line


def _finding(title: PageBlock, below: list[PageBlock]) -> tuple[PageFinding, list[TextPart]]:
    match = _TITLE.fullmatch(title.text)
    assert match, "checked by the caller"
    number = int(match[1])
    label = _label(below)
    reviewer: list[str] = []
    reviewer_at: list[int] = []
    parts: list[TextPart] = []
    for block in below:
        lines = _lines(block)
        reviews = _reviewers(block, lines, label.line if label else 0)
        for first, last, statements in reviews:
            reviewer += statements
            reviewer_at += range(first, last + 1)
        apart = {at for first, last, _ in reviews for at in range(first, last + 1)}
        apart |= {label.line} if label and block.line <= label.line <= block.end else set()
        parts += _without(number, block, lines, apart) if apart else _parts(number, block)
    lists = [at for at, block in enumerate(below) if block.kind == "bullet_list"]
    members = next((at for at in lists if at and below[at - 1].text.startswith("<details><summary>")), None)
    return (
        PageFinding(
            number=number,
            subject=match[2].strip(),
            members=below[members].source if members is not None and _GROUP.fullmatch(match[2].strip()) else "",
            heading=title.line,
            label=label.label if label else None,
            label_line=label.line if label else title.line,
            tail=label.tail if label else "",
            problem=label.problem if label else "",
            reviewer=tuple(reviewer),
            reviewer_lines=tuple(reviewer_at),
        ),
        parts,
    )


def _lines(block: PageBlock) -> list[tuple[int, str]]:
    return list(enumerate(block.source.split("\n"), block.line))


def _reviewers(block: PageBlock, lines: list[tuple[int, str]], label_line: int) -> list[tuple[int, int, list[str]]]:
    """Return the `Reviewer:` statements of a block, each with its first and last line.

    A statement ends at the next statement, at a label, or at the end of the block.
    """
    if block.kind == "heading":
        _, statements = labels.split_reviewer(block.text)
        return [(block.line, block.end, statements)] if statements else []
    result = []
    if block.kind == "paragraph":
        at = label_line - block.line
        for some in [lines] if not 0 <= at < len(lines) else [lines[:at], lines[at + 1 :]]:
            before, statements = labels.split_reviewer("\n".join(line for _, line in some))
            if statements:
                result.append((some[len(before)][0], some[-1][0], statements))
    for item in block.items if block.kind in ("bullet_list", "ordered_list") else ():
        before, statements = labels.split_reviewer(_ITEM.sub("", item.source))
        if statements:
            result.append((item.line + len(before), item.end, statements))
        else:
            result += [(child.line, child.end, [text]) for child in item.items if (text := _nested(child))]
    return result


def _nested(item: PageBlock) -> str:
    before, statements = labels.split_reviewer(_ITEM.sub("", item.source))
    return " ".join(statements) if statements and not before else ""


def _without(owner: int, block: PageBlock, lines: list[tuple[int, str]], apart: set[int]) -> Iterator[TextPart]:
    """Yield the lines of a block, without the lines whose numbers are in `apart`.

    Consecutive lines of the same list item form one part.
    """
    items = {item.line for item in block.items} if block.kind == "bullet_list" else set()
    run: list[tuple[int, str]] = []
    for number, line in (*lines, (0, "")):
        if run and (not number or number in apart or number in items):
            text = "\n".join(line for _, line in run).strip("\n")
            if text.strip():
                yield TextPart(owner=owner, kind=block.kind, text=text, first=run[0][0], last=run[-1][0])
            run = []
        if number and number not in apart:
            run.append((number, line))


class _LabelLine(Frozen):
    line: int
    label: PageLabel | None
    tail: str
    problem: str = ""


def _label(below: Sequence[PageBlock]) -> _LabelLine | None:
    """Return the first line that has a label.

    If there is none, return the first line that looks like a label, with the reason why it cannot be parsed. If there
    is no such line either, return None.
    """
    odd: _LabelLine | None = None
    paragraphs = [block for block in below if block.kind == "paragraph"]
    for block in paragraphs:
        for number, line in _lines(block):
            head, dot, tail = line.strip().partition("·")
            bold = _BOLD.match(line.strip())
            label_text = head if dot or not bold else bold[0]
            # A later paragraph can begin with a bold word that a person wrote. In such a paragraph, a label counts only
            # in the form that evalscribe writes.
            if block is not paragraphs[0] and not (bold and dot):
                continue
            after_label = f" {dot}{tail}".rstrip() if dot else line.strip()[len(label_text) :]
            try:
                label = labels.parse(label_text.strip(), number)
            except UnreadableReport as error:
                looks = dot or line.strip().startswith(("**", "__", "~~")) or _SHOUTED.match(line.strip())
                # Further down, such words belong to the reasoning or to a note.
                if odd is None and looks and block is below[0] and number == block.line:
                    odd = _LabelLine(line=number, label=None, tail="", problem=error.reason)
                continue
            if not dot and _LABELS.search(after_label):
                return _LabelLine(line=number, label=None, tail="", problem="there are two labels on this line")
            if dot or bold or not after_label.strip():
                return _LabelLine(line=number, label=label, tail=after_label)
    return odd


class _Reading:
    """Compares a page with the original that evalscribe wrote, and applies people's edits to the report in the data."""

    def __init__(
        self, plain: str, tidied: NumberedLines, page: ParsedPage, then: ParsedPage, written: Report, base_known: bool
    ) -> None:
        self.plain, self.tidied, self.page, self.then = plain, tidied, page, then
        self.written, self.base_known = written, base_known
        self.pairs = _same_findings(page.findings, then.findings)
        """The original of each finding, as evalscribe wrote it, keyed by the finding's current number on the page."""
        self.quotations = _quotations(then)
        self._refuse_hidden()
        self.added = _Additions(page, then, self.pairs)
        self.notes = self.added.notes()

    def edits(self) -> PageEdits:
        numbers = _numbers(self.written, self.then)
        edits = {numbers[then.number]: now for now, then in self._both() if then.number in numbers}
        entries = tuple(
            self._with_edits(entry, edits[number]) if number in edits else entry
            for number, entry in enumerate(self.written.entries, 1)
        )
        self._refuse_labels_in_headings(numbers, entries)
        actions = self.written.actions_taken if self.page.actions is None else self.page.actions
        report = replaced(self.written, entries=entries, actions_taken=actions, notes=self._report_notes(numbers))
        base = list(self._base_lines())
        lines = list(self._other_lines())
        # The blank lines around a removed note remain in `lines`, so the blank lines of `base` are restored.
        tidied = undo_formatting(NumberedLines([text for _, text in lines], [number for number, _ in lines]), base)
        return PageEdits(
            report=report,
            written=self.written,
            base=normalised("\n".join(base)),
            base_known=self.base_known,
            other_text=normalised(tidied.text),
            numbers=tuple(self.tidied.numbers[min(n, len(self.tidied.numbers)) - 1] for n in tidied.numbers),
            front=self._added_front_matter(),
            page=self.plain,
        )

    def _both(self) -> Iterator[tuple[PageFinding, PageFinding]]:
        return ((now, self.pairs[now.number]) for now in self.page.findings if now.number in self.pairs)

    def _refuse_hidden(self) -> None:
        """Raise `UnreadableReport` if a heading is no longer parsed as a heading.

        The text below it would otherwise be misread.
        """
        headings = set(self.page.headings)
        for heading in self.then.headings:
            if heading in headings:
                continue
            for number, line in enumerate(self.page.lines, 1):
                if line.strip(" \t#>*_") != heading or not line.strip():
                    continue
                subject = f"the heading {heading!r}"
                for part in self.page.parts:
                    if part.first < number <= part.last and part.kind != "paragraph":
                        raise UnreadableReport(
                            f"{subject} is inside the block that begins here; is its end missing?", part.first, number
                        )
                if number >= self.page.actions_line:
                    raise UnreadableReport(f"{subject} is below {ACTIONS!r}; move that section to the end", number)
                if re.match(r"#{2,3} ", line):
                    above = (at for at in range(number, 0, -1) if self.page.lines[at - 1].startswith("## "))
                    raise UnreadableReport(
                        f"{subject} is outside its section; restore the section's heading, which is missing or changed",
                        *dict.fromkeys((next(above, number), number)),
                    )
                raise UnreadableReport(f"{subject} has lost its `#` or changed its level; restore it", number)

    def _with_edits(self, entry: ReportEntry, now: PageFinding) -> ReportEntry:
        then = self.pairs[now.number]
        changed: dict[str, object] = {}
        if now.problem:
            raise UnreadableReport(now.problem, now.label_line)
        if now.label is not None and now.label != then.label:
            changed |= _corrected(entry, now, then)
        if now.reviewer != then.reviewer:
            changed["reviewer"] = now.reviewer
        # Newer data can have notes that are not on this page. Notes that are on the original page and not on this one
        # were removed by a person.
        old = {tidy(note) for note in self.quotations.get(then.number, ())}
        notes = tuple(map(tidy, self.notes.get(now.number, ())))
        all_notes = (*notes, *(note for note in entry.notes if note not in old and note not in notes))
        if all_notes != entry.notes:
            changed["notes"] = all_notes
        return replaced(entry, **changed) if changed else entry

    def _report_notes(self, numbers: Mapping[int, int]) -> tuple[ReportNote, ...]:
        notes_by_text = {note.text: note for note in self.written.notes}
        old = {tidy(note) for owner in _SECTIONS for note in self.quotations.get(owner, ())}
        notes = [
            notes_by_text.get(tidy(text), ReportNote(section=owner, text=text))
            for owner in _SECTIONS
            for text in self.notes.get(owner, ())
        ]
        texts = {note.text for note in notes}
        unseen = [note for note in self.written.notes if note.text not in old and note.text not in texts]
        return tuple(dict.fromkeys((*notes, *unseen, *self._departed(numbers, texts | set(notes_by_text)))))

    def _departed(self, numbers: Mapping[int, int], texts: set[str]) -> Iterator[ReportNote]:
        """Yield notes that keep people's edits of findings that are on the page but no longer in the data.

        Findings can be missing in the data if the data is newer than the page.
        """
        for now, then in self._both():
            if then.number in numbers:
                continue
            notes = list(self.notes.get(now.number, ()))
            corrected = now.label is not None and now.label != then.label
            if not (corrected or notes or now.reviewer):
                continue
            label = now.label.classification if now.label and now.label.classification else "not classified"
            parts = [*(f"Reviewer: {text}" for text in now.reviewer), *notes]
            text = "\n\n".join((f"No longer among the failures: {now.subject} ({label}).", *parts))
            if tidy(text) not in texts:
                yield ReportNote(section="findings", text=text)

    def _refuse_labels_in_headings(self, numbers: Mapping[int, int], entries: Sequence[ReportEntry]) -> None:
        """Raise `ConflictingEdits` if a person added a label to a finding's heading and the finding has a different
        label.
        """
        for now, then in self._both():
            number = numbers.get(then.number)
            # In the older format, the label was at the end of this heading.
            added = now.subject[len(then.subject) :] if now.subject.startswith(then.subject) else ""
            at_end = _AT_END.match(added)
            label_text = at_end[1] if at_end and _LABELS.search(at_end[1].upper().replace(" ", "_")) else ""
            if number is None or not label_text or _agrees(labels.parse(label_text, now.heading), entries[number - 1]):
                continue
            in_force = labels.render(labels.of(entries[number - 1]))
            raise ConflictingEdits(
                f"the heading says {label_text.strip()}, the finding {in_force}; "
                "correct the bold label under the finding's heading",
                now.heading,
                now.label_line,
            )

    def _base_lines(self) -> Iterator[str]:
        """Yield the lines of the page as evalscribe wrote it.

        Notes and `Reviewer:` lines that people edited later are left out.
        """
        reviewers_unchanged = {then.number: self._same_reviewers(now, then) for now, then in self._both()}
        edited = (finding for finding in self.then.findings if not reviewers_unchanged.get(finding.number, True))
        removed = {at for finding in edited for at in finding.reviewer_lines}
        for part in (
            part
            for part in self.added.removed_notes
            if isinstance(part.owner, str) or part.owner in reviewers_unchanged
        ):
            removed |= set(range(part.first, part.last + 1))
            # The blank line above a note was added together with the note.
            removed |= {part.first - 1} if part.first > 1 and not self.then.lines[part.first - 2] else set()
        return (line for number, line in enumerate(self.then.lines, 1) if number not in removed)

    def _added_front_matter(self) -> tuple[str, ...]:
        generated = {line.partition(":")[0] for line in self.then.lines[: _front_end(self.then.lines)]}
        lines = self.page.lines[: _front_end(self.page.lines)]
        return tuple(line for line in lines if line.strip() and line.partition(":")[0] not in generated)

    def _same_reviewers(self, now: PageFinding, then: PageFinding) -> bool:
        mine = [self.page.lines[at - 1] for at in now.reviewer_lines]
        return mine == [self.then.lines[at - 1] for at in then.reviewer_lines]

    def _other_lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each line of the page, with all edits of its editable parts undone."""
        lines: dict[int, str | None] = {}
        for part in self.added.parts:
            lines |= dict.fromkeys(range(part.first, part.last + 1))
        for now, then in self._both():
            if not self._same_reviewers(now, then):
                lines |= dict.fromkeys(now.reviewer_lines)
            if now.label is not None and then.label is not None:
                tail = then.tail if _tail_note(now, then) is not None else now.tail
                old = self.then.lines[then.label_line - 1]
                lines[now.label_line] = old[: len(old) - len(then.tail)] + tail
        front = _front_end(self.page.lines)
        # Lines that people added to the front matter are returned by `_added_front_matter`.
        yield from ((1, line) for line in self.then.lines[: _front_end(self.then.lines)])
        for number, text in enumerate(self.page.lines[: self.page.actions_line - 1], 1):
            line = lines.get(number, text)
            if number > front and line is not None:
                yield number, line
        end = len(self.page.lines)
        yield from ((end, line) for line in self.then.lines[self.then.actions_line - 1 :])


_SECTIONS: tuple[Section, ...] = ("summary", *SECTIONS.values())


def _quotations(page: ParsedPage) -> dict[int | Section, list[str]]:
    """Return the notes that the original page already had, keyed by finding number or section."""
    notes: dict[int | Section, list[str]] = {}
    for part in page.parts:
        # Evalscribe generates no other text as a blockquote.
        if part.kind == "blockquote":
            notes.setdefault(part.owner, []).append(_unquoted_text(part))
    return notes


def _unquoted_text(part: TextPart) -> str:
    return PageBlock(kind=part.kind, line=part.first, source=part.text).unquoted


def _same_findings(now: Sequence[PageFinding], then: Sequence[PageFinding]) -> dict[int, PageFinding]:
    """Find the original of each finding on the page, as evalscribe wrote it.

    The result is keyed by the current number of the finding.
    """
    pairs: dict[int, PageFinding] = {}
    remaining = list(then)
    rules = (
        lambda a, b: (a.number, a.subject) == (b.number, b.subject),
        lambda a, b: (a.subject, a.members) == (b.subject, b.members),
        # The number alone is right for a reworded heading and wrong for renumbered findings, so it is tried last.
        lambda a, b: a.number == b.number,
    )
    for same in rules:
        # Two of the rules require equal numbers. A lookup avoids comparing every pair of a thousand findings.
        by_key = {finding.number: finding for finding in remaining} if same is not rules[1] else {}
        for finding in now:
            if finding.number in pairs:
                continue
            some = [by_key[finding.number]] if finding.number in by_key else remaining if not by_key else []
            match = [other for other in some if same(finding, other)]
            if len(match) == 1:
                pairs[finding.number] = match[0]
                remaining.remove(match[0])
                by_key.pop(match[0].number, None)
    return pairs


def _numbers(written: Report, then: ParsedPage) -> dict[int, int]:
    """Map the number of each finding on the original page to its number in the data.

    The numbers differ if a process was killed between writing newer data and writing the page.
    """
    keys = {(labels.subject(entry), _member_lines(entry)): number for number, entry in enumerate(written.entries, 1)}
    numbers = {
        finding.number: keys[finding.subject, finding.members]
        for finding in then.findings
        if (finding.subject, finding.members) in keys
    }
    if _front("\n".join(then.lines), "revision") != str(written.revision):
        return numbers
    # A finding whose heading differs keeps its number.
    same = (finding.number for finding in then.findings if finding.number <= len(written.entries))
    return {number: number for number in same if number not in numbers.values()} | numbers


def _member_lines(entry: ReportEntry) -> str:
    return "\n".join(member_lists(entry)) if _GROUP.fullmatch(labels.subject(entry)) else ""


def _corrected(entry: ReportEntry, now: PageFinding, then: PageFinding) -> dict[str, object]:
    label = now.label
    assert label is not None, "checked by the caller"
    if label.classification is None and entry.classification is not None:
        raise UnreadableReport(
            "a label cannot be removed, only replaced: write the label that you think is right", now.label_line
        )
    kind = labels.kind_in_force(label, then.label, entry.judge, entry.cause_kind)
    was = then.label.uncertain if then.label else False
    changed: dict[str, object] = {
        "classification": label.classification,
        # The printed word `uncertain` is about the label of the judge. With another label, it only counts if a person
        # added it.
        "uncertain": label.uncertain and (label.classification == entry.classification or not was),
        "cause_kind": kind,
    }
    # If the judge gave the same label, only a `Reviewer:` line shows that a person changed the kind.
    alone = entry.judge and entry.judge.classification == label.classification and not now.reviewer
    if alone and kind != entry.cause_kind:
        changed["reviewer"] = (f"kind {kind}, not {entry.cause_kind}" if kind else f"not of kind {entry.cause_kind}",)
    return changed


def _tail_note(now: PageFinding, then: PageFinding) -> str | None:
    """Return the text that a person added at the end of the line with the label.

    Returns None if the line was edited in another way.
    """
    if now.tail == then.tail:
        return ""
    if then.tail and now.tail.startswith(then.tail):
        return now.tail[len(then.tail) :].strip()
    # A tail with `·` still has generated text, so the line is an edit of generated text and not a note.
    return now.tail.strip(" -–—:,.·") if "·" not in now.tail else None


class _Additions:
    """Text that people added to a page. Rewordings of generated text do not count as added."""

    def __init__(self, page: ParsedPage, then: ParsedPage, pairs: Mapping[int, PageFinding]) -> None:
        self.page, self.then, self.pairs = page, then, pairs
        all_changes = changes([part.text for part in then.parts], [part.text for part in page.parts])
        edited = [change for change in all_changes if change.kind != "equal"]
        # Generated text that a person moved to another place is not a note.
        moved = Counter(part.text for change in edited for part in self._generated_parts(change))
        self.parts: list[TextPart] = []
        """Parts that people added, and lines that people added within generated parts."""
        self.unchanged = [
            part
            for change in all_changes
            if change.kind == "equal"
            for part in page.parts[change.first : change.last]
            if part.kind == "blockquote"
        ]
        """Notes of the original page that are unchanged."""
        self.removed_notes = [
            part
            for change in edited
            for part in then.parts[change.first_old : change.last_old]
            if part.kind == "blockquote"
        ]
        """Notes of the original page that people changed, moved or removed."""
        for change in edited:
            new = list(page.parts[change.first : change.last])
            reworded = _rewordings(self._generated_parts(change), new)
            for part in new:
                if part in reworded:
                    self.parts += _added_lines(reworded[part], part)
                elif moved[part.text]:
                    moved[part.text] -= 1
                elif part.text != NOTHING and not self._is_in_added_finding(part):
                    self.parts.append(part)

    def _generated_parts(self, change: TextChange) -> list[TextPart]:
        """Return the generated parts of a changed region, as evalscribe wrote them."""
        return [part for part in self.then.parts[change.first_old : change.last_old] if part.kind != "blockquote"]

    def _is_in_added_finding(self, part: TextPart) -> bool:
        """Return whether a part belongs to a finding that a person added, or is the heading of such a finding.

        The parts of an added finding are not notes.
        """
        title = part.kind == "heading" and _TITLE.fullmatch(part.text.strip("# ")) is not None
        return isinstance(part.owner, int) and (title or part.owner not in self.pairs)

    def notes(self) -> dict[int | Section, list[str]]:
        """Return people's notes, keyed by finding or section. Adjacent parts are joined into one note."""
        notes: dict[int | Section, list[str]] = {}
        last: TextPart | None = None
        for part in sorted((*self.parts, *self.unchanged), key=lambda part: part.first):
            together = (
                last is not None
                and last.owner == part.owner
                and "blockquote" not in (last.kind, part.kind)
                and not any(line.strip() for line in self.page.lines[last.last : part.first - 1])
            )
            some = notes.setdefault(part.owner, [])
            if together and some:
                apart = "\n" * (part.first - last.last) if last else ""
                some[-1] += f"{apart}{_unquoted_text(part)}"
            else:
                some.append(_unquoted_text(part))
            last = part
        for now in self.page.findings:
            then = self.pairs.get(now.number)
            extra = _tail_note(now, then) if then and now.label and then.label else ""
            if extra:
                notes.setdefault(now.number, []).insert(0, extra)
        return notes


def _rewordings(old: Sequence[TextPart], new: Sequence[TextPart]) -> dict[TextPart, TextPart]:
    """Map each part in `new` that rewords a generated part to the part in `old` that it replaces."""
    if len(old) * len(new) > _MOST_PAIRS:
        return {}
    likeness = sorted(
        # Positions are negative because the list is sorted in reverse: of equally similar pairs, the first on the page
        # wins.
        ((_likeness(a, b), -at, -to) for at, a in enumerate(old) for to, b in enumerate(new) if a.kind == b.kind),
        reverse=True,
    )
    pairs: dict[int, int] = {}
    for like, at, to in likeness:
        if like >= _ALIKE and -at not in pairs.values() and -to not in pairs:
            pairs[-to] = -at
    return {new[to]: old[at] for to, at in pairs.items()}


def _likeness(old: TextPart, new: TextPart) -> float:
    if new.text.startswith(old.text) or new.text.endswith(old.text) or old.kind in ("table", "fence"):
        return 1.0
    # The value of `quick_ratio` is an upper bound of `ratio` that is faster to compute.
    return SequenceMatcher(None, old.text[:500], new.text[:500]).quick_ratio()


def _added_lines(old: TextPart, new: TextPart) -> Iterator[TextPart]:
    """Yield the lines that a person added to a generated paragraph or list whose other lines are unchanged."""
    if new.kind not in ("paragraph", "bullet_list"):
        return
    lines = new.text.split("\n")
    line_changes = changes(old.text.split("\n"), lines)
    if any(change.kind not in ("equal", "insert") for change in line_changes):
        return
    for change in line_changes:
        if change.kind == "insert":
            text = "\n".join(lines[change.first : change.last])
            first = new.first + change.first
            last = new.first + change.last - 1
            yield TextPart(owner=new.owner, kind=new.kind, text=text, first=first, last=last)


def _agrees(label: PageLabel, entry: ReportEntry) -> bool:
    return label.classification == entry.classification and label.kind in (None, entry.cause_kind)


def _front_end(lines: Sequence[str]) -> int:
    """Return the number of the line that ends the front matter. Return 0 if there is no front matter."""
    if not lines or lines[0] != "---":
        return 0
    return next((number for number, line in enumerate(lines[1:], 2) if line == "---"), 0)


def finding_line(edits: PageEdits, entry: ReportEntry) -> int:
    """Return the line number of the heading of the finding that has an eval in common with the entry."""
    number = next(n for n, candidate in enumerate(edits.report.entries, 1) if set(candidate.paths) & set(entry.paths))
    lines = enumerate(edits.page.split("\n"), 1)
    return next((at for at, line in lines if re.match(rf"###\s+{number}[.)]", line)), 1)


class UnmergedEdits(DataError):
    """Edits of generated text could not be merged into the new page.

    The message has the numbers of the edited lines.
    """


_NAMED = 5
"""Maximum number of line numbers in the message of `UnmergedEdits`."""


def unmerged(edits: PageEdits, reason: str) -> UnmergedEdits:
    """Return an error whose message has the numbers of the edited lines."""
    numbers = list(dict.fromkeys(edit.line for edit in edits.outside_edits))
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    return UnmergedEdits(
        f"{reason}: line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:_NAMED]))}{more}"
    )


def merge_edits(edits: PageEdits, rendered: str) -> str:
    """Return the new page with the edits that people made to generated text on the old page.

    Raises `UnmergedEdits` if generated lines next to an edit have changed, or if the old page as evalscribe wrote it is
    lost.
    """
    if edits.other_text == edits.base:
        return with_front(rendered, edits.front)
    if not edits.base_known:
        raise unmerged(edits, "edited, and neither the store nor git has the page as it was written")
    merged = merge_lines(edits.other_text, edits.base, rendered)
    if merged is None:
        raise unmerged(edits, "edited where the new page has different text")
    return with_front(merged, edits.front)


def with_front(page: str, lines: Sequence[str]) -> str:
    """Return the page with the given lines added at the end of its front matter."""
    added = "".join(f"{line}\n" for line in dict.fromkeys(lines))
    return page.replace("\n---\n", f"\n{added}---\n", 1)


def merge_lines(mine: str, base: str, theirs: str) -> str | None:
    """Return the three-way merge of the texts, as computed by `git merge-file`. Return None if there are conflicts.

    Raises `UsageError` if git is not installed.
    """
    require_git()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("mine", "base", "theirs")]
        for path, text in zip(paths, (mine, base, theirs), strict=True):
            # Text with lone surrogates cannot be encoded as strict UTF-8.
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
        result = Git(Path(folder)).run("merge-file", "-p", "-q", *(path.name for path in paths))
    return None if result.code else result.out.decode("utf-8", "surrogatepass")
