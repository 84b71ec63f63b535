"""The last check before a report is replaced: no line that a person wrote may be missing from the new text."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from evalscribe.publish.reading import Reading, lines_of
from evalscribe.report_markdown import UnreadableReport

READ_ALREADY = re.compile(r"### \d+[.)] .*: |revision: ")
"""Lines whose edits have been taken or refused: a finding's heading, the revision."""
ROW = re.compile(r"\|\s*\d+\s*\|(?:.*(?<!\\)\|){5}")
CELL_END = re.compile(r"(?<!\\)\|")
LABEL_CELL = 4
REVIEWER = re.compile(r"^[\s>*_#+-]*(?:\[[ x]\]\s+)?[*_]*reviewer[*_]*(?:\s*\([^()]*\))?[*_]*\s*:[*_]*", re.IGNORECASE)
RULE = re.compile(r"\s*[|:-][\s|:-]*")
"""Between a table's head and its rows, or a rule: nobody's words."""
JUDGE = re.compile(r"\W*judge\b", re.IGNORECASE)
RECOMMENDED = re.compile(r"^- [^:]*: ")
MARKERS = re.compile(r"^[\s>*+-]+|^#+\s|\s#+$|[`*_\\|]")


def refuse_changed_judges(reading: Reading) -> None:
    """Raises `UnreadableReport` where a person wrote into a `Judge:` line: the heading is theirs, that line is not."""
    written = {entry.paths: entry.judge for entry in reading.written.entries} if reading.written else {}
    for number, entry in enumerate(reading.current.entries, 1):
        if written.get(entry.paths, entry.judge) != entry.judge:
            line = _line_of_judge(reading.text, number)
            raise UnreadableReport("this is the judge's own label; correct the one in the finding's heading", line)


def refuse_losses(current: str, written: str | None, new: str) -> None:
    """Raises `UnreadableReport` naming the first line that a person changed and the new text does not hold."""
    if written is None:
        return
    lines = lines_of(new)
    kept = "\n".join(map(_bare, lines)) + " ".join(map(_bare, lines))
    for number, line in _changed(lines_of(written), lines_of(current)):
        if READ_ALREADY.match(line) or RULE.fullmatch(line):
            continue
        if not all(_bare(part) in kept for part in _parts(line)):
            raise UnreadableReport(
                "this line was changed in a part that is generated, and would be lost; "
                "say it on a `Reviewer:` line or in a paragraph of its own",
                number,
            )


def _changed(written: list[str], current: list[str]) -> Iterator[tuple[int, str]]:
    """Lines that a person added or changed, with their numbers."""
    for kind, _, _, first, last in SequenceMatcher(None, written, current).get_opcodes():
        if kind in ("insert", "replace"):
            yield from enumerate(current[first:last], first + 1)


def _line_of_judge(text: str, finding: int) -> int:
    lines = list(enumerate(lines_of(text), 1))
    heading = next((at for at, line in lines if line.startswith(f"### {finding}.")), 1)
    end = next((at for at, line in lines[heading:] if line.startswith("## ")), len(lines))
    end = next((at for at, line in lines[heading:end] if line.startswith("### ")), end)
    return next((at for at, line in lines[heading:end] if JUDGE.match(line)), heading)


def _parts(line: str) -> list[str]:
    """What has to be found again: of a classification row its cells without the label, of other lines the words."""
    if ROW.match(line):
        return [cell for at, cell in enumerate(CELL_END.split(line)) if at != LABEL_CELL]
    return [RECOMMENDED.sub("", REVIEWER.sub("", line))]


def _bare(line: str) -> str:
    """Words only: markers of lists, quotations and code left out."""
    return " ".join(MARKERS.sub("", line).split())
