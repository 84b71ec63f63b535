"""Render names, links and lists of names within a line of markdown, and rows of tables.

A name becomes a code span if markdown or one of evalscribe's own parsers could misread it.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from urllib.parse import quote

from evalscribe.model.report import ReportEntry
from evalscribe.text import HAZARD, mask_code

PLAIN_NAME = re.compile(r"[^\W_](?:[\w./+-]*[^\W_])?")
VERSIONED = re.compile(r"[a-z]+@\d+")
"""Matches names with a version, such as `rules@2`. Hosting sites do not read such a name as a mention, because letters
stand directly before the `@`.
"""
PLAIN_PATH = re.compile(r"[^\W_](?:[\w.+-]*[^\W_])?(?:/[^\W_](?:[\w.+-]*[^\W_])?)+")
DATE = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")


def code(text: str) -> str:
    """Return a line of text as a code span.

    If the text begins and ends with a space, one more space is added at each end, because CommonMark removes one.
    """
    if not text:
        return ""
    runs = {len(run) for run in re.findall("`+", text)}
    delimiter = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    pad = " " if text[0] == "`" or text[-1] == "`" or (text[0] == text[-1] == " ") else ""
    return f"{delimiter}{pad}{text}{pad}{delimiter}"


def uncode(source: str) -> str:
    """Return the text inside a code span. Any other source is returned unchanged."""
    if not source.startswith("`") or mask_code(source).strip("\0"):
        return source
    length = len(source) - len(source.lstrip("`"))
    text = source[length:-length]
    return text[1:-1] if text[:1] == text[-1:] == " " and text.strip(" ") else text


def name(text: str) -> str:
    plain = PLAIN_NAME.fullmatch(text) and not HAZARD.search(text)
    return text if plain or VERSIONED.fullmatch(text) else code(text)


def printed_path(text: str) -> str:
    """Render an eval's path.

    A path without a slash becomes a code span, because it could look like the id of a recommendation.
    """
    return text if PLAIN_PATH.fullmatch(text) and not HAZARD.search(text) else code(text)


def paths(names: Iterable[str]) -> str:
    return ", ".join(printed_path(item) for item in names)


def link(text: str, url: str | None) -> str:
    return f"[{text}]({url})" if url else text


def report_link(file: str) -> str:
    """Render a link to an earlier report. The text of the link is the date in the report's file name."""
    target = quote(file, safe="/.-_")
    return link(report_date(target) or code(target), target)


def report_date(file: str) -> str:
    """Return the date in a report's file name. Return an empty string if the name has no date."""
    # The id of the run, which comes first, can contain a date too.
    return next(iter(DATE.findall(file)[-1:]), "")


def cell(text: str) -> str:
    """Escape text for a table cell. In a table, GitHub reads `\\|` as a literal bar, even inside a code span."""
    return text.replace("|", "\\|")


def ranges(numbers: Sequence[int]) -> str:
    """Render a list of numbers. Three or more consecutive numbers are written as a range: `1–3, 7, 8`."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    parts = ([f"{run[0]}–{run[-1]}"] if len(run) > 2 else list(map(str, run)) for run in runs)
    return ", ".join(chain.from_iterable(parts))


def row(*cells: str) -> str:
    return f"| {' | '.join(cell(text) for text in cells)} |"


def render_references(paths: Sequence[str], entries: Sequence[ReportEntry]) -> list[str]:
    """Render the evals in `paths` as references to report entries.

    An entry is referred to by its number if `paths` has all of its evals. All other evals are referred to by path.
    References are in the order of the entries.
    """
    requested = dict.fromkeys(paths)
    references = []
    for number, entry in enumerate(entries, 1):
        matches = [path for path in entry.paths if path in requested]
        references += [str(number)] if len(matches) == len(entry.evals) else [printed_path(path) for path in matches]
    reported = {path for entry in entries for path in entry.paths}
    return references + [printed_path(path) for path in requested if path not in reported]
