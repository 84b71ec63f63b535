"""What a person wrote over facts that are nobody's to change: who judged and how, and what the run says of itself."""

import re
from collections.abc import Iterator

from evalscribe.model.report import Report, RunHeader
from evalscribe.proofread.parts import lines_of
from evalscribe.publish.losses import LOST
from evalscribe.publish.reading import Reading
from evalscribe.report_markdown.unreadable import UnreadableReport

JUDGE = re.compile(r"\W*judge\b", re.IGNORECASE)


def refuse_changed_facts(reading: Reading, new: Report) -> None:
    """Raises `UnreadableReport` with the line of the first one."""
    for reason, *lines in (*_judges(reading), *_run(reading, new)):
        raise UnreadableReport(reason, *lines)


def _judges(reading: Reading) -> Iterator[tuple[str, int] | tuple[str, int, int]]:
    """The heading is a person's, the `Judge:` line is not."""
    written = {entry.paths: entry.judge for entry in reading.written.entries} if reading.written else {}
    for number, entry in enumerate(reading.current.entries, 1):
        if written.get(entry.paths, entry.judge) != entry.judge:
            reason = "this is the judge's own label; correct the one in the finding's heading"
            yield reason, _line_of_judge(reading.text, number)
        elif entry.judge and entry.judge.id not in reading.current.judges:
            reason = f"finding {number} was judged by {entry.judge.id}, which the front matter leaves out"
            yield reason, _line_of_judge(reading.text, number), 1


def _run(reading: Reading, new: Report) -> Iterator[tuple[str, int]]:
    """Where the text last written is known, `losses` compares the lines."""
    if not reading.unexplained(new):
        return
    old, lines = reading.current, lines_of(reading.text)
    if _names(old.run) != _names(new.run):
        yield f"the run is of {_names(new.run)}; anything else {LOST}", _row(lines, "Run")
    if old.run.status == new.run.status and _counts(old.run) != _counts(new.run):
        yield f"the run has {_counts(new.run)}; anything else {LOST}", _row(lines, "Result")
    steps = {path: entry.step for entry in new.entries for path in entry.paths}
    for number, entry in enumerate(old.entries, 1):
        if entry.judge and not steps.keys() & set(entry.paths):
            yield f"the run has no failed eval {entry.paths[0]}; another name {LOST}", _row(lines, str(number))
        step = steps.get(entry.paths[0], entry.step)
        if step != entry.step:
            yield f"{entry.paths[0]} failed in the step {step}; anything else {LOST}", _row(lines, str(number))


def _names(run: RunHeader) -> str:
    return f"{run.model} ({run.provider}), experiment {run.experiment}"


def _counts(run: RunHeader) -> str:
    return f"{run.passed} passed, {run.failed} failed, {run.total} in all"


def _row(lines: list[str], first: str) -> int:
    """The line of the table's row with this first cell."""
    row = re.compile(rf"\|?\s*{re.escape(first)}\s*\|")
    return next((at for at, line in enumerate(lines, 1) if row.match(line)), 1)


def _line_of_judge(text: str, finding: int) -> int:
    lines = list(enumerate(lines_of(text), 1))
    heading = next((at for at, line in lines if line.startswith(f"### {finding}.")), 1)
    end = next((at for at, line in lines[heading:] if line.startswith("## ")), len(lines))
    end = next((at for at, line in lines[heading:end] if line.startswith("### ")), end)
    return next((at for at, line in lines[heading:end] if JUDGE.match(line)), heading)
