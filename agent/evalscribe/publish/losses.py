"""The last check before a report is replaced: no line that a person wrote may be missing from the new text."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from evalscribe.proofread.corrected import without_label
from evalscribe.proofread.generated import generated
from evalscribe.proofread.parts import TOP, lines_of, parts
from evalscribe.publish.reading import Reading
from evalscribe.report_markdown import fields
from evalscribe.report_markdown.unreadable import UnreadableReport

READ_ALREADY = re.compile(r"### \d+[.)] .*: |revision: *\d+$")
"""Lines whose edits have been taken or refused: a finding's heading, the revision."""
ROW = re.compile(r"\|\s*\d+\s*\|(?:.*(?<!\\)\|){5}")
REVIEWER = re.compile(rf"^[\s>*_#+-]*{fields.REVIEWER.pattern}", re.IGNORECASE)
RULE = re.compile(r"\s*[|:-][\s|:-]*")
"""Between a table's head and its rows, or a rule: nobody's words."""
RECOMMENDED = re.compile(r"^- [^:]*: ")
LOST = "would be lost; say it on a `Reviewer:` line or in a paragraph of its own"
NUMBERED = re.compile(r"\bR\d+\b")
MARKERS = re.compile(r"^[\s>*+-]+|^#+\s|\s#+$|[`*_\\|]")


def refuse_losses(reading: Reading, new: str) -> None:
    """Raises `UnreadableReport` naming the first line that a person changed and the new text does not hold.

    Where the text last written is not known, that is a line which what the page says would not be printed as.
    """
    lines = lines_of(new)
    kept = "\n".join(map(_bare, lines)) + " ".join(map(_bare, lines))
    for number, line, known in _suspects(reading):
        if READ_ALREADY.match(line) or RULE.fullmatch(line):
            continue
        if not all(_bare(part) in kept for part in _parts(line, known)):
            raise UnreadableReport(f"this line was changed in a part that is generated, and {LOST}", number)


def _suspects(reading: Reading) -> Iterator[tuple[int, str, str]]:
    """Number and text of each line that may be a person's, and the text in which its head is known to be ours."""
    current = lines_of(reading.text)
    if reading.written_text is not None:
        changed = _changed(lines_of(reading.written_text), current)
        yield from ((number, line, reading.written_text) for number, line in changed)
        return
    page = parts(reading.text)
    yield from ((number, line, "") for number, line in enumerate(current[: page[TOP].line - 1], 1) if "#" in line)
    for said in generated(reading.current, page):
        if said.level == "error":
            yield from ((number, line, "") for number, line in _paragraph(current, said.line))


def _paragraph(lines: list[str], first: int) -> Iterator[tuple[int, str]]:
    """The line and, of our first paragraph, those that follow it."""
    yield first, lines[first - 1]
    for number in range(first + 1, len(lines) + 1) if lines[first - 1].startswith("**") else ():
        if not lines[number - 1] or lines[number - 1].startswith(("|", ">")):
            return
        yield number, lines[number - 1]


def _changed(written: list[str], current: list[str]) -> Iterator[tuple[int, str]]:
    """Lines that a person added or changed, with their numbers."""
    for kind, _, _, first, last in SequenceMatcher(None, written, current).get_opcodes():
        if kind in ("insert", "replace"):
            yield from enumerate(current[first:last], first + 1)


def _parts(line: str, known: str) -> list[str]:
    """What has to be found again: of a classification row its cells without the label, of other lines the words.

    A recommendation is kept as a note without its head, where that is `known` to be ours.
    """
    if ROW.match(line):
        return without_label(line)
    head = RECOMMENDED.match(line)
    said = line[head.end() :] if head and head[0] in known else line
    return [REVIEWER.sub("", said)]


def _bare(line: str) -> str:
    """Words only: markers of lists, quotations and code left out, and the numbers that we give."""
    return NUMBERED.sub("R", " ".join(MARKERS.sub("", line).split()))
