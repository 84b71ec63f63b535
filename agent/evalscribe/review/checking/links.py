"""Whether links lead somewhere: other reports exist, nothing leaves the reports folder, web addresses are ones."""

import re
from collections.abc import Callable, Iterator
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from evalscribe.model.report import ProblemLevel, Report
from evalscribe.proofread.parts import outside_fences
from evalscribe.proofread.said import Said
from evalscribe.text import mask_code

LINK = re.compile(r"\[[^\[\]\n]*\]\(\s*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+[\"'][^\n]*?[\"'])?\s*\)")
REFERENCE = re.compile(r" {0,3}\[[^\[\]]+\]:\s*<?([^\s<>]+)>?.*")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
LONGEST = 20_000
"""Characters of a line; a longer one holds no link of anybody's."""
SHOWN = 5
"""Further lines that are named for one link."""


def links(text: str, report: Report | None, name: str, exists: Callable[[str], bool]) -> Iterator[Said]:
    """`exists`: whether there is a file of this name below the reports folder, where `name` is the report.

    What evalscribe wrote has to lead to a report; a person may point to any file, and is only told, more quietly
    where the whole report is theirs (`report` is None).
    """
    wrong: dict[tuple[ProblemLevel, str], list[int]] = {}
    for number, level, what in _wrong(text, report, name, exists):
        wrong.setdefault((level, what), []).append(number)
    for (level, what), (first, *others) in wrong.items():
        yield Said(first, level, f"{what}{_also(others)}")


def _also(lines: list[int]) -> str:
    """One link is one mistake, however often it stands there."""
    told = ", ".join(map(str, lines[:SHOWN])) + (" …" if len(lines) > SHOWN else "")
    return f" (also in {'line' if len(lines) == 1 else 'lines'} {told})" if lines else ""


def _wrong(text: str, report: Report | None, name: str, exists: Callable[[str], bool]) -> Iterator[Said]:
    own = linked_reports(report) if report else frozenset()
    for number, target in _targets(text):
        if SCHEME.match(target) or target.startswith("//"):
            if what := _odd_address(target):
                yield Said(number, "error" if report else "notice", what)
        elif (path := unquote(target.partition("#")[0].partition("?")[0])) and "\0" not in path:
            level: ProblemLevel = "error" if path in own else "warning" if report else "notice"
            yield from _of_file(number, path, level, name, exists)


def _of_file(number: int, path: str, level: ProblemLevel, name: str, exists: Callable[[str], bool]) -> Iterator[Said]:
    folder = name.rpartition("/")[0]
    found = normpath(f"{folder}/{path}" if folder else path)
    if path.startswith("/") or found == ".." or found.startswith("../"):
        yield Said(number, level, f"the link {path!r} leaves the folder of reports")
    elif not exists(found):
        yield Said(number, level, f"the link {path!r} leads to nothing: there is no {found}")


def _targets(text: str) -> Iterator[tuple[int, str]]:
    """Each link's line and target, code left out."""
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
    return None if well else f"{target[:120]!r} is no well-formed web address"


def linked_reports(report: Report) -> frozenset[str]:
    """The files that generated lines link to."""
    seen = (name for entry in report.entries for name in entry.recurrence.reports)
    return frozenset((*report.earlier, *seen, *(one.report for one in report.follow_ups)))
