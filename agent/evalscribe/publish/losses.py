"""The last check before a report is replaced: no line that a person wrote may be missing from the new text."""

import re

from evalscribe.report_markdown import UnreadableReport

LABELLED = re.compile(r"### \d+[.)] .*: |revision: ")
"""Lines whose edits have been read already: a finding's heading, the revision."""
TABLE_CELL = re.compile(r"(?<!\\)\|")
MARKERS = re.compile(r"^[\s>*+-]+|[`*_\\|]")
LABEL = re.compile(r"[a-z -]+(\(\w+\))?(, uncertain)?")


def refuse_losses(current: str, written: str | None, new: str) -> None:
    """Raises `UnreadableReport` naming the first line that a person changed and the new text does not hold."""
    if written is None:
        return
    known = {_bare(line) for line in _lines(written)}
    kept = " ".join(_bare(line) for line in _lines(new))
    for number, line in enumerate(_lines(current), 1):
        if _bare(line) in known or LABELLED.match(line):
            continue
        if not all(_bare(part) in kept for part in _parts(line)):
            raise UnreadableReport(
                "this line was changed in a part that is generated, and would be lost; "
                "say it on a `Reviewer:` line or in a paragraph of its own",
                number,
            )


def _parts(line: str) -> list[str]:
    """A table's cells without the label, which has been read already; any other line as it is."""
    if not line.startswith("|"):
        return [re.sub(r"(?i)^[\s>*_-]*reviewer[*_]*\s*:[*_]*", "", line)]
    return [cell for cell in TABLE_CELL.split(line) if not LABEL.fullmatch(cell.strip().lower().replace("_", " "))]


def _bare(line: str) -> str:
    """Words only: markers of lists, quotations and code left out."""
    return " ".join(MARKERS.sub("", line).split())


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
