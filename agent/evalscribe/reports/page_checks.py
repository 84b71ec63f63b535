"""Check one page of a report: whether it can be parsed and is consistent, its file name, links and quotations."""

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
FINDING = re.compile(r"###\s+(\d+)[.)]\s")
FACTS = ("|", "# ", "### ", "**", "As run ")
"""The first words of generated lines that state facts outside fences."""
MOST_EDITED = 10
"""Maximum changed lines that get a problem each."""


def naming(report: Report, name: str) -> Iterator[LineProblem]:
    """Check the file name. `name` is the path in the reports folder, or, for a file outside it, only the file name."""
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
        yield LineProblem(1, "error", f"the run is of {expected}, and is not found in this folder, {'/'.join(folders)}")


def front_matter(edits: PageEdits, data: str) -> Iterator[LineProblem]:
    """Check that the front matter agrees with the data."""
    evidence = edits.report.evidence
    if evidence and not EVIDENCE.fullmatch(evidence):
        yield LineProblem(1, "warning", f"evidence {evidence!r} in the data is not `sha256:` and 8 digits")
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
"""Maximum characters of a line in which links are searched for. Longer lines are skipped."""
MOST_LISTED = 5
"""Maximum number of further lines that are listed for a repeated link."""


def links(text: str, report: Report | None, name: str, exists: Callable[[str], bool]) -> Iterator[LineProblem]:
    """Check the links of a page.

    Generated links must lead to a report. People can link to any file, so a broken link that a person added is only a
    warning. If a person wrote the whole report (`report` is None), it is a notice.

    Args:
        text: The page.
        report: The parsed page; None for a report that a person wrote.
        name: Path of the report in the reports folder.
        exists: Returns True if a file with this path exists in the reports folder.
    """
    wrong: dict[tuple[ProblemLevel, str], list[int]] = {}
    for number, level, message in _wrong(text, report, name, exists):
        wrong.setdefault((level, message), []).append(number)
    for (level, message), (first, *other_lines) in wrong.items():
        yield LineProblem(first, level, f"{message}{_also(other_lines)}")


def _also(lines: list[int]) -> str:
    """Return a phrase that names the further lines with the same link, because each link is reported only once."""
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
                continue  # a copy outside the folder of reports
            level: ProblemLevel = "error" if path in generated else "warning" if report else "notice"
            yield from _of_file(number, path, level, name, exists)


def _of_file(
    number: int, path: str, level: ProblemLevel, name: str, exists: Callable[[str], bool]
) -> Iterator[LineProblem]:
    folder = name.rpartition("/")[0]
    target = normpath(f"{folder}/{path}" if folder else path)
    if path.startswith("/") or target == ".." or target.startswith("../"):
        yield LineProblem(number, level, f"the link {path!r} leaves the folder of reports")
    elif not exists(target):
        yield LineProblem(number, level, f"the link {path!r} leads to nothing: there is no {target}")


def _targets(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and target of each link outside code."""
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
        well = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        well = False
    well = well or (target.casefold().startswith("mailto:") and "@" in target)
    return None if well else f"{target[:120]!r} is not a well-formed web address"


def linked_reports(report: Report) -> frozenset[str]:
    """Return the names of the reports that generated lines link to."""
    repeated = (name for entry in report.entries for part in entry.each for name in part.recurrence.reports)
    return frozenset((*report.earlier, *repeated, *(follow_up.report for follow_up in report.follow_ups)))


KIND = re.compile(r"""kind:\s*["']?evalscribe-report/""")
HEAD = 40
"""Number of lines in which a report's kind is searched for. The lines are searched as text because the front matter can
be broken.
"""
MARKER = re.compile(r"<{7}(?: .*)?|\|{7}(?: .*)?|={7}|>{7}(?: .*)?")


class PagePart(NamedTuple):
    line: int
    """Number of the first line, counted from 1."""
    lines: list[str]


class PageCheck(NamedTuple):
    report: Report | None
    """None if the page cannot be read."""
    findings: tuple[PagePart, ...]
    """The lines of each finding."""
    problems: tuple[LineProblem, ...]


def is_generated(text: str) -> bool:
    return any(KIND.match(line) for line in lines_of(text)[:HEAD])


def check_page(source: PageSource, name: str, exists: Callable[[str], bool], bases: Iterable[str] = ()) -> PageCheck:
    """Check a generated report without its evidence.

    Args:
        source: The page and its data.
        name: As in `links`.
        exists: As in `links`.
        bases: Texts that might be the page as evalscribe wrote it.
    """
    text = source.text
    conflicts = tuple(markers(text))
    if conflicts:
        return PageCheck(None, (), conflicts)
    try:
        edits = read_page(source, bases)
    except UnreadableReport as error:
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
    """Yield a notice if editable parts were edited, and an error for each edit of a generated line."""
    if not edits.mergeable:
        yield LineProblem(
            1, "notice", "written by an earlier version; it gets the present form when it is written again"
        )
        return
    changed = sum(new != old for new, old in zip(edits.report.entries, edits.written.entries, strict=False))
    if changed or edits.report != edits.written:
        message = f"{pluralise(changed, 'finding')} edited" if changed else "edited"
        yield LineProblem(1, "notice", f"{message} by people; the data follows when the report is written again")
    if not edits.base_known:
        message = "neither the store nor git has the page as it was written: changed lines cannot be detected"
        yield LineProblem(1, "notice", message)
    wrong = list(_changed_facts(edits)) if edits.base_known else []
    yield from wrong[:MOST_EDITED]
    if len(wrong) > MOST_EDITED:
        line = wrong[MOST_EDITED].line
        yield LineProblem(line, "error", f"{len(wrong) - MOST_EDITED} more generated lines were changed")


def _changed_facts(edits: PageEdits) -> Iterator[LineProblem]:
    """Yield an error for each generated line that was changed or removed, and each added line that looks generated."""
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
    """Return the lines that look generated, by line number: headings, labels, tables and quotations."""
    outside = dict(outside_fences(page))
    lines = enumerate(lines_of(page), 1)
    return {
        at: text
        for at, text in lines
        if text and (at not in outside or text.startswith(FACTS) or snippets.parse_item(text, at))
    }


def _findings(text: str, report: Report) -> tuple[PagePart, ...]:
    """Return the lines of each finding of the report. A finding that is missing on the page has no lines."""
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
    """Return the lines of a text without trailing white space, because an editor can change that."""
    return [line.rstrip() for line in text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def outside_fences(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line outside fences and front matter."""
    lines = lines_of(text)
    return ((at + 1, line) for at, line, fenced in _fenced(lines, _after_front_matter(lines)) if not fenced)


def _after_front_matter(lines: list[str]) -> int:
    if lines[0] != "---":
        return 0
    return next((at for at, line in enumerate(lines[1:], 2) if line == "---"), 0)


def _fenced(lines: list[str], start: int) -> Iterator[tuple[int, str, bool]]:
    """Yield index and text of each line, and whether it is in a fence or opens or closes one."""
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


def markers(text: str, *, code: bool = False) -> Iterator[LineProblem]:
    """Yield an error for each conflict marker of a merge.

    With `code`, also for those in fences, which can be quotations.
    """
    lines = enumerate(lines_of(text), 1) if code else outside_fences_and_front(text)
    marks = [(number, line) for number, line in lines if MARKER.fullmatch(line)]
    if any(line.startswith("<") for _, line in marks) and any(line.startswith(">") for _, line in marks):
        for number, line in marks:
            yield LineProblem(number, "error", f"unresolved conflict: {line[:40]!r}")


def outside_fences_and_front(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside fences and those of the front matter.

    Most merges conflict at the revision in the front matter.
    """
    numbers = dict(outside_fences(text))
    first = min(numbers, default=1)
    yield from ((at, line) for at, line in enumerate(lines_of(text)[: first - 1], 1))
    yield from numbers.items()


def _unreadable(error: UnreadableReport) -> LineProblem:
    several = isinstance(error, ConflictingEdits) or len(error.lines) > 1
    return LineProblem(max(1, min(error.lines, default=1)), "error", str(error) if several else error.reason)


def quotations(part: PagePart) -> tuple[Quoted, ...]:
    """Return the quotations of a finding, with their line numbers."""
    block = _generated_block(part)
    if block is None:
        items = (snippets.parse_item(text, line) for line, text in enumerate(part.lines, part.line))
        return tuple(item for item in items if item)[:1]
    try:
        return tuple(snippets.parse(block))
    except UnreadableReport:
        return ()


def compare_quotation(quoted: Sequence[Quoted], evidence: Evidence) -> Iterator[LineProblem]:
    """Check the quotations of a finding against the evidence."""
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
    """Warn if a quotation that is marked as unverified is in the evidence.

    It is only a warning, because a part that is not printed might be wrong.
    """
    if _stands_at(snippet, document, snippet.first, last):
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
    """Return whether a quotation equals these lines of a document.

    If it joins several lines, white space is ignored.
    """
    lines = document.lines[first - 1 : first - 1 + SNIPPET_LINES]
    if not lines or first > len(document.lines):
        return False
    printed = Snippet(role=snippet.role, path=snippet.path, first=first, text="\n".join(lines)).text.split("\n")
    if snippet.first == snippet.last <= last - first + snippet.first:
        return _squeezed("".join(printed[: last - first + 1])) == _squeezed(snippet.text)
    quoted = snippet.text.split("\n")
    return list(map(fold_line, printed[: len(quoted)])) == list(map(fold_line, quoted))


def _squeezed(text: str) -> str:
    return "".join(fold_line(text).split())


def _renamed(evidence: Evidence, snippet: Snippet) -> Document | None:
    """Return the document whose printed name is the snippet's path."""
    documents = (document for document in evidence.of(snippet.role))
    return next((d for d in documents if _printed(d) == snippet.path), None)


def _printed(document: Document) -> str:
    return Snippet(role=document.role, path=document.path, first=1, text="").path


def _generated_block(part: PagePart) -> PageBlock | None:
    """Return the finding's first fence that evalscribe generated."""
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
