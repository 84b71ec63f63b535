"""Render the problems that a check found as plain lines, as GitHub annotations, and as markdown."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evalscribe.model.report import (
    PROBLEM_LEVELS,
    CheckedReport,
    CheckResult,
    Problem,
    ProblemLevel,
    escape_ci_commands,
)
from evalscribe.text import cut, pluralise, prose


class LineProblem(NamedTuple):
    line: int
    level: ProblemLevel
    what: str


ANNOTATIONS = 10
"""Maximum number of annotations per level that GitHub shows for a workflow step."""
ROWS = 50
COMMENT_ROWS = 20
COMMENT_REPORTS = 10
COMMENT_SUMMARY = 3000
"""Maximum number of characters that a comment quotes from the first lines of a report."""
COMMENT_LIMIT = 60_000
"""Maximum number of characters of a comment. GitHub accepts at most 65,536."""


def check_lines(checked: CheckResult) -> Iterator[str]:
    """Yield one line for each problem, then the notes.

    The last line has the numbers of checked reports and of problems.
    """
    for problem in checked.problems:
        yield _line(problem)
    yield from (f"notice: {note}" for note in checked.notes)
    yield f"{_total(checked)}{_other_counts(checked)}"


def check_annotations(checked: CheckResult) -> Iterator[str]:
    """Yield annotation commands for at most as many problems as GitHub shows.

    All other problems are plain lines in the log.
    """
    for level in PROBLEM_LEVELS:
        problems = checked.of(level)
        yield from (_annotation(problem) for problem in problems[:ANNOTATIONS])
        for problem in problems[ANNOTATIONS:]:
            yield f"- {_line(problem)}"
        if len(problems) > ANNOTATIONS:
            more = len(problems) - ANNOTATIONS
            yield f"{more} more of level {level} are only in this log: a step shows {ANNOTATIONS}."
    yield from map(notice, checked.notes)
    yield f"{_total(checked)}{_other_counts(checked)}"


def notice(text: str) -> str:
    """Return the workflow command with which GitHub adds a notice to a workflow step."""
    return f"::notice title=evalscribe::{_data(escape_ci_commands(text))}"


def check_table(checked: CheckResult, rows: int = ROWS) -> str:
    """Render the totals, and a table of problems, as markdown. Errors come first.

    Text from reports is escaped.
    """
    worst = [problem for level in PROBLEM_LEVELS for problem in checked.of(level)]
    out = [f"**{_total(checked)}**{_other_counts(checked)}"]
    if worst:
        out += ["", "| | Where | What |", "|---|---|---|", *map(_row, worst[:rows])]
    if len(worst) > rows:
        out += ["", f"{len(worst) - rows} more are in the log."]
    out += [line for note in checked.notes for line in ("", prose(note))]
    return "\n".join(out) + "\n"


def check_comment(checked: CheckResult, changed: Sequence[CheckedReport] | None) -> str:
    """Render the comment on a pull request.

    `changed` has the reports that the pull request changes, or is None if these reports are not known.
    """
    out = [check_table(checked, COMMENT_ROWS)]
    for report in (changed or ())[:COMMENT_REPORTS]:
        browser = f" ([in the browser]({report.page_url}))" if report.page_url else ""
        out.append(f"**{prose(report.file)}**{browser}\n")
        out.append(f"{_first_lines(report)}\n")
    if changed is not None and len(changed) > COMMENT_REPORTS:
        out.append(f"{len(changed) - COMMENT_REPORTS} more reports were changed.\n")
    return cut("\n".join(out), COMMENT_LIMIT)


def _first_lines(report: CheckedReport) -> str:
    if not report.summary:
        return "> Written by a person." if not report.ours else "> Cannot be read."
    title, *rest = report.summary
    return cut("\n".join(f"> {line}" for line in (title.removeprefix("# "), "", *rest)), COMMENT_SUMMARY)


def _line(problem: Problem) -> str:
    level = "" if problem.level == "error" else f"{problem.level}: "
    return f"{_file(problem.file)}:{problem.line}: {level}{problem.what}"


def _file(name: str) -> str:
    """Escape a path. GitHub's runner would otherwise read a path that begins with `::` as a command."""
    return f"./{name}" if name.startswith("::") else name


def _annotation(problem: Problem) -> str:
    return (
        f"::{problem.level} file={_property(problem.file)},line={problem.line},title=evalscribe::{_data(problem.what)}"
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    # In a workflow command of GitHub, `:` and `,` end a property.
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _row(problem: Problem) -> str:
    location, message = (prose(text).replace("|", "\\|") for text in (f"{problem.file}:{problem.line}", problem.what))
    return f"| {problem.level} | {location} | {message} |"


def _total(checked: CheckResult) -> str:
    return f"{pluralise(len(checked.reports), 'report')} checked, {checked.wrong} with problems"


def _other_counts(checked: CheckResult) -> str:
    counts = [pluralise(len(checked.of(level)), level) for level in PROBLEM_LEVELS[1:] if checked.of(level)]
    return f"; {', '.join(counts)}" if counts else ""
