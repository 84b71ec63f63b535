"""Check one page of a report: its syntax and consistency, its file name, its links and its quotations."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from posixpath import normpath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from evalscribe.errors import DataError
from evalscribe.ids import folder_fit, model_folder, report_stems, run_id_prefix
from evalscribe.judging.quotations import fold_line
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.report import SNIPPET_LINES, ProblemLevel, Report, Snippet
from evalscribe.model.repository import LABELS_PAGE
from evalscribe.reports import snippets
from evalscribe.reports.blocks import ConflictingEdits, PageBlock, UnreadableReport
from evalscribe.reports.page_edits import PageEdits
from evalscribe.reports.problems import LineProblem
from evalscribe.reports.reading import PageSource, read_page
from evalscribe.reports.snippets import Quoted
from evalscribe.text import cut, mask_code, pluralise

NAME = re.compile(r"(.+)_(\d{4}-\d{2}-\d{2})(?:\.evalscribe(?:-\d+)?)?\.md")
EVIDENCE = re.compile(r"sha256:[0-9a-f]{8}")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
FINDING = re.compile(r"###\s+(\d{1,9})[.)]\s")
FACTS = ("|", "# ", "### ", "**", "As run ")
"""Prefixes of the generated lines, outside fences, that state facts from the data."""
MOST_EDITED = 10
"""Maximum number of changed lines that are reported separately. All remaining lines are reported as one problem."""


def naming(report: Report, name: str) -> Iterator[LineProblem]:
    """Check the file name of a report.

    `name` is the report's path in the reports folder. For a file outside that folder, `name` is only the file name.
    """
    path = PurePosixPath(name)
    run = report.run
    match = NAME.fullmatch(path.name)
    if match is None or match[1] not in report_stems(run.id):
        message = f"rename {path.name} to {_expected(report)}, after the report's run {run.id}"
        yield LineProblem(1, "error", message)
    elif match[2] != report.date:
        yield LineProblem(1, "warning", f"the file's name says {match[2]}, but the report was begun on {report.date}")
    folders = path.parts[:-1]
    if folders and folder_fit(run.provider, run.model, folders) is None:
        expected = "/".join(model_folder(run.provider, run.model))
        yield LineProblem(1, "error", f"reports of this run belong in {expected}, not in {'/'.join(folders)}")


def front_matter(edits: PageEdits, data: str) -> Iterator[LineProblem]:
    """Check that the front matter of a page agrees with its data file."""
    evidence = edits.report.evidence
    if evidence and not EVIDENCE.fullmatch(evidence):
        yield LineProblem(1, "warning", f"evidence {evidence!r} in the data is not `sha256:` followed by 8 hex digits")
    for at, line in enumerate(lines_of(edits.page)[:HEAD] if edits.mergeable else (), 1):
        if line.startswith("revision: ") and line.removeprefix("revision: ") != str(edits.written.revision):
            revision = line.removeprefix("revision: ")
            newer = not revision.isdecimal() or int(revision) > edits.written.revision
            message = f"{data} is of revision {edits.written.revision}, "
            if newer:
                message += "but the page is newer: restore the data that was written with it, for example from git"
            else:
                message += "but the page is older: analyze the run again to rewrite the page"
            yield LineProblem(at, "error" if newer else "notice", message)


def _expected(report: Report) -> str:
    return f"{run_id_prefix(report.run.id)}_{report.date}.md"


LINK = re.compile(r"\[[^\[\]\n]*\]\(\s*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+[\"'][^\n]*?[\"'])?\s*\)")
REFERENCE = re.compile(r" {0,3}\[[^\[\]]+\]:\s*<?([^\s<>]+)>?.*")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
LONGEST = 20_000
"""Maximum number of characters of a line that is searched for links. Longer lines are skipped."""
MOST_LISTED = 5
"""Maximum number of further lines that are listed for a repeated link."""


def links(text: str, report: Report | None, name: str, exists: Callable[[str], bool]) -> Iterator[LineProblem]:
    """Check the links of a page.

    A broken link that evalscribe generated is an error. A broken link that a person added is a warning. If a person
    wrote the whole report, every broken link is only a notice.

    Args:
        text: Text of the page.
        report: The report that the page contains. None if a person wrote the report.
        name: Path of the report relative to the reports folder.
        exists: Function that returns whether a file with the given path exists in the reports folder.
    """
    wrong: dict[tuple[ProblemLevel, str], list[int]] = {}
    for number, level, message in _wrong(text, report, name, exists):
        wrong.setdefault((level, message), []).append(number)
    for (level, message), (first, *other_lines) in wrong.items():
        yield LineProblem(first, level, f"{message}{_also(other_lines)}")


def _also(lines: list[int]) -> str:
    """Return a phrase that names the other lines with the same link.

    The link itself is reported only at its first line.
    """
    numbers = ", ".join(map(str, lines[:MOST_LISTED])) + (" …" if len(lines) > MOST_LISTED else "")
    return f" (also in {'line' if len(lines) == 1 else 'lines'} {numbers})" if lines else ""


def _wrong(text: str, report: Report | None, name: str, exists: Callable[[str], bool]) -> Iterator[LineProblem]:
    generated = linked_reports(report) if report else frozenset()
    for number, target in _targets(text):
        if SCHEME.match(target) or target.startswith("//"):
            if message := _odd_address(target):
                yield LineProblem(number, "error" if report else "notice", message)
        elif (path := unquote(target.partition("#")[0].partition("?")[0])) and "\0" not in path:
            if path.endswith(f"../{LABELS_PAGE}") and "/" not in name:
                continue  # this is a copy of the report outside the reports folder
            level: ProblemLevel = "error" if path in generated else "warning" if report else "notice"
            yield from _of_file(number, path, level, name, exists)


def _of_file(
    number: int, path: str, level: ProblemLevel, name: str, exists: Callable[[str], bool]
) -> Iterator[LineProblem]:
    folder = name.rpartition("/")[0]
    target = normpath(f"{folder}/{path}" if folder else path)
    if path.startswith("/") or target == ".." or target.startswith("../"):
        yield LineProblem(number, level, f"the link {path!r} leaves the reports folder")
    elif not exists(target):
        yield LineProblem(number, level, f"the link {path!r} is broken: {target} does not exist")


def _targets(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the target of each link that is outside code."""
    for number, line in outside_fences(text):
        if len(line) > LONGEST or ("](" not in line and "]:" not in line):
            continue
        mask = mask_code(line)
        yield from ((number, line[slice(*match.span(1))]) for match in LINK.finditer(mask))
        if match := REFERENCE.fullmatch(mask):
            yield number, line[slice(*match.span(1))]


def _odd_address(target: str) -> str | None:
    try:
        parts = urlsplit(target)
        # Reading `parts.port` raises `ValueError` if the port is invalid.
        well = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        well = False
    well = well or (target.casefold().startswith("mailto:") and "@" in target)
    return None if well else f"{target[:120]!r} is not a well-formed web address"


def linked_reports(report: Report) -> frozenset[str]:
    """Return the file names of the reports to which generated lines link."""
    repeated = (name for entry in report.entries for part in entry.each for name in part.recurrence.reports)
    return frozenset((*report.earlier, *repeated, *(follow_up.report for follow_up in report.follow_ups)))


KIND = re.compile(r"""kind:\s*["']?evalscribe-report/""")
HEAD = 40
"""Number of lines at the start of a page that are searched for the kind of the report. The lines are searched as
plain text, because the front matter can be invalid.
"""
MARKER = re.compile(r"<{7}(?: .*)?|\|{7}(?: .*)?|={7}|>{7}(?: .*)?")


class PagePart(NamedTuple):
    line: int
    """Line number of the first of the `lines`, counted from 1."""
    lines: list[str]


class PageCheck(NamedTuple):
    report: Report | None
    """The report that the page contains. None if the page cannot be read."""
    findings: tuple[PagePart, ...]
    """Lines of each finding, in the order of the findings."""
    problems: tuple[LineProblem, ...]


def is_generated(text: str) -> bool:
    return any(KIND.match(line) for line in lines_of(text)[:HEAD])


def check_page(source: PageSource, name: str, exists: Callable[[str], bool], bases: Iterable[str] = ()) -> PageCheck:
    """Check a report that evalscribe wrote, without comparing it with the evidence.

    Args:
        source: The page and its data file.
        name: Path of the report relative to the reports folder.
        exists: Function that returns whether a file with the given path exists in the reports folder.
        bases: Texts that the page could have had before people edited it.
    """
    text = source.text
    conflicts = tuple(markers(text))
    if conflicts:
        return PageCheck(None, (), conflicts)
    try:
        edits = read_page(source, bases)
    except UnreadableReport as error:
        # A conflict marker in a quotation can be the reason why the page cannot be read.
        return PageCheck(None, (), tuple(markers(text, code=True)) or (_unreadable(error),))
    except DataError as error:
        return PageCheck(None, (), (LineProblem(1, "error", str(error)),))
    problems = (
        *naming(edits.report, name),
        *front_matter(edits, source.data_name),
        *_edited(edits),
        *links(text, edits.report, name, exists),
    )
    return PageCheck(edits.report, _findings(text, edits.report), problems)


def _edited(edits: PageEdits) -> Iterator[LineProblem]:
    """Yield a notice if people edited parts that are meant to be edited.

    Yield an error for each edit of a generated line.
    """
    if not edits.mergeable:
        yield LineProblem(
            1, "notice", "in an older report format; the format is updated when the report is written again"
        )
        return
    changed = sum(new != old for new, old in zip(edits.report.entries, edits.written.entries, strict=False))
    if changed or edits.report != edits.written:
        message = f"{pluralise(changed, 'finding')} edited" if changed else "edited"
        yield LineProblem(1, "notice", f"{message} by people; the data is updated when the report is written again")
    if not edits.base_known:
        message = "neither the store nor git has the page as it was written: changed lines cannot be detected"
        yield LineProblem(1, "notice", message)
    wrong = list(_changed_facts(edits)) if edits.base_known else []
    yield from wrong[:MOST_EDITED]
    if len(wrong) > MOST_EDITED:
        line = wrong[MOST_EDITED].line
        yield LineProblem(line, "error", f"{len(wrong) - MOST_EDITED} more generated lines were changed")


def _changed_facts(edits: PageEdits) -> Iterator[LineProblem]:
    """Yield an error for each generated line that was changed or removed.

    An added line that looks like a generated line is also an error.
    """
    facts, written = _generated_lines(edits.page), _generated_lines(edits.base)
    for line, before, now in edits.outside_edits:
        if now is not None and line in facts:
            was = f"; it was {_short(before)}" if before else ""
            yield LineProblem(
                line, "error", f"this line is generated from the data and was changed: {_short(now)}{was}"
            )
        elif before is not None and before in written.values():
            yield LineProblem(
                line, "error", f"a line that is generated from the data is missing here: {_short(before)}"
            )


def _short(line: str) -> str:
    return repr(cut(line, 80))


def _generated_lines(page: str) -> dict[int, str]:
    """Return the lines that look generated, keyed by line number.

    Front matter, the title, headings of findings, labels, the net impact, and lines of tables and quotations look
    generated.
    """
    outside = dict(outside_fences(page))
    lines = enumerate(lines_of(page), 1)
    return {
        at: text
        for at, text in lines
        if text and (at not in outside or text.startswith(FACTS) or snippets.parse_item(text, at))
    }


def _findings(text: str, report: Report) -> tuple[PagePart, ...]:
    """Return the lines of each finding of the report.

    The list of lines is empty for a finding that the page does not have.
    """
    lines = lines_of(text)
    starts = {}
    for number, line in outside_fences(text):
        if (match := FINDING.match(line)) and int(match[1]) not in starts:
            starts[int(match[1])] = number
    ends = sorted(
        [*starts.values(), *(n for n, line in outside_fences(text) if line.startswith("## ")), len(lines) + 1]
    )
    parts = []
    for number in range(1, len(report.entries) + 1):
        first = starts.get(number, len(lines))
        last = next((end for end in ends if end > first), len(lines) + 1)
        parts.append(PagePart(first, lines[first - 1 : last - 1] if number in starts else []))
    return tuple(parts)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without trailing whitespace, because editors can change it."""
    return [line.rstrip() for line in text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def outside_fences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is neither in a fence nor in front matter."""
    lines = lines_of(text)
    return ((at + 1, line) for at, line, fenced in _fenced(lines, _after_front_matter(lines)) if not fenced)


def _after_front_matter(lines: list[str]) -> int:
    if lines[0] != "---":
        return 0
    return next((at for at, line in enumerate(lines[1:], 2) if line == "---"), 0)


def _fenced(lines: list[str], start: int) -> Iterator[tuple[int, str, bool]]:
    """Yield the index and the text of each line, and whether the line belongs to a fence, including its first and last
    line.
    """
    fence = ""
    for at, line in enumerate(lines[start:], start):
        mark = FENCE.fullmatch(line)
        if fence:
            yield at, line, True
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        else:
            # In CommonMark, a line that opens a fence of backticks has no other backtick.
            opens = mark is not None and not (mark[1][0] == "`" and "`" in mark[2])
            fence = mark[1] if mark and opens else ""
            yield at, line, opens


def markers(text: str, *, code: bool = False) -> Iterator[LineProblem]:
    """Yield an error for each conflict marker that a merge left.

    If `code` is True, markers inside fences are also reported. A marker inside a fence can be part of a quotation.
    """
    lines = enumerate(lines_of(text), 1) if code else outside_fences_and_front(text)
    marks = [(number, line) for number, line in lines if MARKER.fullmatch(line)]
    # A line `=======` alone is the underline of a heading.
    if any(line.startswith("<") for _, line in marks) and any(line.startswith(">") for _, line in marks):
        for number, line in marks:
            yield LineProblem(number, "error", f"unresolved conflict: {line[:40]!r}")


def outside_fences_and_front(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside fences, including those of the front matter.

    The front matter is included because most merge conflicts are about the revision in it.
    """
    numbers = dict(outside_fences(text))
    first = min(numbers, default=1)
    yield from ((at, line) for at, line in enumerate(lines_of(text)[: first - 1], 1))
    yield from numbers.items()


def _unreadable(error: UnreadableReport) -> LineProblem:
    several = isinstance(error, ConflictingEdits) or len(error.lines) > 1
    return LineProblem(max(1, min(error.lines, default=1)), "error", str(error) if several else error.reason)


def quotations(part: PagePart) -> tuple[Quoted, ...]:
    """Return the quotations of a finding, with their line numbers on the page."""
    block = _generated_block(part)
    if block is None:
        items = (snippets.parse_item(text, line) for line, text in enumerate(part.lines, part.line))
        # A finding has at most one generated quotation in this form. A person added the others.
        return tuple(item for item in items if item)[:1]
    try:
        return tuple(snippets.parse(block))
    except UnreadableReport:
        return ()


def compare_quotation(quoted: Sequence[Quoted], evidence: Evidence) -> Iterator[LineProblem]:
    """Compare the quotations of a finding with the evidence, and yield the problems."""
    for snippet, line, last in quoted:
        document = evidence.document(snippet.role, snippet.path) or _renamed(evidence, snippet)
        if document is None:
            if snippet.status != "unverified":
                yield LineProblem(
                    line, "error", f"forged or outdated: the evidence has no {snippet.role} {snippet.path!r}"
                )
        elif snippet.status == "unverified":
            yield from _wrongly_doubted(line, snippet, document, last)
        elif not _stands_at(snippet, document, snippet.first, last):
            yield LineProblem(line, "error", _misplaced(snippet, document, last))


def _wrongly_doubted(line: int, snippet: Snippet, document: Document, last: int) -> Iterator[LineProblem]:
    """Warn if the evidence contains a quotation that is marked as unverified."""
    if _stands_at(snippet, document, snippet.first, last):
        # Not an error, because a part of the quotation that is not printed might be wrong.
        place = f"{snippet.role} {snippet.path}:{snippet.first}"
        yield LineProblem(line, "warning", f"marked as unverified, but the quoted text is at {place}")


def _misplaced(snippet: Snippet, document: Document, last: int) -> str:
    place = f"{snippet.role} {snippet.path}"
    quoted_lines = [fold_line(line) for line in snippet.text.split("\n")]
    for first in range(1, len(document.lines) + 1):
        begins = fold_line(document.lines[first - 1])[:20]
        same = begins and quoted_lines[0].startswith(begins)
        if same and _stands_at(snippet, document, first, first + last - snippet.first):
            return f"the quotation is at {place}:{first}, not at line {snippet.first}"
    return f"forged or outdated: the quotation is not in the evidence at {place}:{snippet.first}, nor elsewhere in it"


def _stands_at(snippet: Snippet, document: Document, first: int, last: int) -> bool:
    """Return whether a quotation equals the given lines of a document.

    If the quotation joins several lines into one, whitespace is ignored.
    """
    lines = document.lines[first - 1 : first - 1 + SNIPPET_LINES]
    if not lines or first > len(document.lines):
        return False
    # A `Snippet` cuts long lines and makes invisible characters visible, as when the report was written.
    printed = Snippet(role=snippet.role, path=snippet.path, first=first, text="\n".join(lines)).text.split("\n")
    if snippet.first == snippet.last <= last - first + snippet.first:
        return _squeezed("".join(printed[: last - first + 1])) == _squeezed(snippet.text)
    quoted = snippet.text.split("\n")
    return list(map(fold_line, printed[: len(quoted)])) == list(map(fold_line, quoted))


def _squeezed(text: str) -> str:
    return "".join(fold_line(text).split())


def _renamed(evidence: Evidence, snippet: Snippet) -> Document | None:
    """Return the document that is printed under the path of the snippet.

    The printed path can differ from the document's path.
    """
    documents = (document for document in evidence.of(snippet.role))
    return next((d for d in documents if _printed(d) == snippet.path), None)


def _printed(document: Document) -> str:
    return Snippet(role=document.role, path=document.path, first=1, text="").path


def _generated_block(part: PagePart) -> PageBlock | None:
    """Return the first code fence of a finding that evalscribe generated; None if there is none."""
    opened, mark = 0, ""
    for at, line in enumerate(part.lines):
        match = FENCE.fullmatch(line)
        if not mark:
            opened, mark = at, match[1] if match else ""
        elif match and match[1].startswith(mark) and not match[2].strip():
            text = "\n".join([*part.lines[opened + 1 : at], ""])
            block = PageBlock(kind="fence", line=part.line + opened, source="", text=text)
            if snippets.is_generated(block):
                return block
            mark = ""
    return None
