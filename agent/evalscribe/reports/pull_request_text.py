"""Render the title and the text of a report's pull request. The text tells reviewers where to look first.

Evidence is printed only in code spans and as normalised prose. Forges therefore do not react to text that a model
wrote.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import quote

from evalscribe import text as prose
from evalscribe.ids import Frozen, model_folder, run_id_prefix
from evalscribe.model.analysis import Analysis
from evalscribe.model.finding import RecurrenceKind
from evalscribe.model.report import Report, ReportEntry

LIMIT = 40_000
"""Maximum number of characters of the pull request's text. GitHub accepts 65,536. The difference leaves room for
evalscribe's markers and for text that people add.
"""
MOST_LISTED = 20
"""Maximum number of names or lines in a list."""
LOW_CONFIDENCE = 0.6
TEXT = 200
SEEN: dict[RecurrenceKind, str] = {
    "new": "New",
    "repeat": "Failed before, for the same cause",
    "changed": "Failed before, for another cause",
    "fix-in-doubt": "A fix did not hold",
}


class PublishedReport(Frozen):
    """Where a report is published, and the earlier report with which it is compared."""

    branch: str
    path: str
    """Path of the report in the repository, with `/` as separator."""
    summary: str
    """First lines of the report, without text that people wrote."""
    previous: Analysis | None = None
    """The newest earlier report on the model. None if there is none."""


def pull_request_title(report: Report) -> str:
    run = report.run
    evals = "eval" if run.total == 1 else "evals"
    return f"{_title_words(report)}: {run.failed} of {run.total} {evals} failed"


def commit_message(report: Report) -> str:
    again = f", revision {report.revision}" if report.revision > 1 else ""
    return f"{_title_words(report)}{again}"


def _title_words(report: Report) -> str:
    """Return words that name the run and the model."""
    # The name is spelled as in paths, because forges react to some texts, and a model could be called `fixes #1`.
    model = "/".join(model_folder(report.run.provider, report.run.model)[1:])
    return f"Analyze {model}, run {run_id_prefix(report.run.id)}"


def pull_request_body(report: Report, published: PublishedReport) -> str:
    sections = (
        _summary(report, published),
        _changes(report, published),
        _changed_by_people(report),
        _eyes(report),
        _correcting(report, published),
    )
    text = "\n\n".join("\n".join(lines) for section in sections if (lines := list(section)))
    if len(text) <= LIMIT:
        return text
    cut_text = text[:LIMIT].rpartition("\n")[0]
    return f"{cut_text}\n\n… (cut; the rest is in the report)"


def _summary(report: Report, published: PublishedReport) -> Iterator[str]:
    # The other half of the text is left for the sections below.
    yield published.summary[: LIMIT // 2]
    yield ""
    again = f", revision {report.revision}" if report.revision > 1 else ""
    browser = f" ([in the browser]({report.page_url}))" if report.page_url else ""
    yield f"The report{again}: {_link(published)}{browser}"


def _changes(report: Report, published: PublishedReport) -> Iterator[str]:
    """Yield lines that state what has changed since the newest earlier report."""
    if not report.earlier:
        yield "**No earlier report** of this model was compared."
        yield from _followed(report)
        return
    yield f"**Against {_code(posixpath.basename(report.earlier[0]))}**"
    for kind, words in SEEN.items():
        numbers = [
            str(n)
            for n, entry in enumerate(report.entries, 1)
            if any(part.recurrence.kind == kind for part in entry.each)
        ]
        if numbers:
            yield f"- {words}: {_several(numbers)}"
    yield from (f"- {line}" for line in _labels(report, published.previous))
    if report.resolved:
        yield f"- No longer failing{_unless(report)}: {_several(map(_code, report.resolved))}"
    yield from _followed(report)


def _followed(report: Report) -> Iterator[str]:
    """Yield a line for each action that followed an earlier report on any model. The line states the outcome."""
    for follow_up in report.follow_ups[:MOST_LISTED]:
        unless = _unless(report) if follow_up.outcome == "held" else ""
        text = prose.prose(follow_up.text, TEXT)
        yield f"- {follow_up.outcome.capitalize()}{unless}: “{text}” ({_several(map(_code, follow_up.evals))})"


def _unless(report: Report) -> str:
    """Return a caveat about incomplete evals.

    Returns an empty string if all evals completed, or if the source names every eval of the run.
    """
    open_ = 0 if report.run.names_all else report.run.incomplete
    return f" (or among the {open_} that never completed)" if open_ else ""


def _labels(report: Report, previous: Analysis | None) -> Iterator[str]:
    """Yield a line for each change of a label since the previous report.

    Findings with the same old label and the same new label share a line.
    """
    before = {finding.eval: finding.classification for finding in previous.findings} if previous else {}
    pairs: dict[tuple[str, str], list[str]] = {}
    for n, entry in enumerate(report.entries, 1):
        for old in {before.get(path) for path in entry.paths} - {None, entry.classification}:
            pairs.setdefault((str(old), entry.classification or "UNCLASSIFIED"), []).append(str(n))
    for (then, now), numbers in sorted(pairs.items()):
        yield f"Another label: {_several(numbers)} ({then} → {now})"


def _changed_by_people(report: Report) -> Iterator[str]:
    """Yield a line for each change of a judge's label by a person.

    Findings with the same old label and the same new label share a line.
    """
    pairs: dict[tuple[str, str], list[str]] = {}
    for n, entry in enumerate(report.entries, 1):
        if entry.reviewed and entry.judge and entry.classification not in (None, entry.judge.classification):
            pairs.setdefault((entry.judge.classification, str(entry.classification)), []).append(str(n))
    if pairs:
        yield "**Changed by a person**"
    for (judged, now), numbers in sorted(pairs.items()):
        yield f"- {_several(numbers)}: {now}, not {judged}"


def _eyes(report: Report) -> Iterator[str]:
    """Yield a line for each finding that a person should look at, with all the reasons."""
    lines = [
        f"- {n}. {_code(_subject(entry))}: {', '.join(reasons)}"
        for n, entry in enumerate(report.entries, 1)
        if (reasons := [words for words, holds in REASONS.items() if any(map(holds, entry.each))])
    ]
    if not lines:
        yield "**Nothing stands out**: every finding is judged, certain, and its quotations are verified."
        return
    yield "**Look first at**"
    yield from lines[:MOST_LISTED]
    if len(lines) > MOST_LISTED:
        yield f"- and {len(lines) - MOST_LISTED} more"


def _correcting(report: Report, published: PublishedReport) -> Iterator[str]:
    entry = next((entry for entry in report.entries if entry.classification), None)
    label = f"`**{entry.classification}**`" if entry else "its bold label"
    yield "**To correct it**, edit the page on this branch, or suggest a change to it here:"
    yield f"- another label: change it in the line under the finding's heading (such as {label});"
    yield "- why, or that you agree: a line `Reviewer: …` below it;"
    yield f"- or on the command line: `evalscribe review label {_name(published.path)} N LABEL --note …`."
    yield ""
    yield "Labels that people gave in merged reports are evidence for the next analysis of this model."


REASONS: Mapping[str, Callable[[ReportEntry], bool]] = {
    "could not be judged": lambda entry: entry.classification is None,
    "uncertain": lambda entry: entry.uncertain and not entry.reviewed,
    "an earlier fix did not hold": lambda entry: entry.recurrence.kind == "fix-in-doubt",
    "a quotation is unverified": lambda entry: any(snippet.status == "unverified" for snippet in entry.snippets),
    "low confidence": lambda entry: (
        entry.judge is not None and entry.judge.confidence < LOW_CONFIDENCE and not (entry.uncertain or entry.reviewed)
    ),
}


def _subject(entry: ReportEntry) -> str:
    return entry.paths[0] if len(entry.evals) == 1 else f"{len(entry.evals)} evals, first {entry.paths[0]}"


def _link(published: PublishedReport) -> str:
    """Return a link to the page of the report. The link is relative to the address of the pull request."""
    return f"[{_code(posixpath.basename(published.path))}](../blob/{quote(published.branch)}/{quote(published.path)})"


def _name(path: str) -> str:
    """Return the name of a report's file for use in a shell command.

    If the name would have to be quoted in a shell, return the placeholder `REPORT`.
    """
    name = posixpath.basename(path)
    return name if re.fullmatch(r"[\w.-]{1,200}", name) and not name.startswith("-") else "REPORT"


def _code(text: str) -> str:
    """Return a text as a code span on one line. Backticks in the text are replaced."""
    line = prose.cut(prose.one_line(text).replace("`", "'"), TEXT)
    return f"`{line}`"


def _several(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
    return ", ".join(listed[:MOST_LISTED]) + more
