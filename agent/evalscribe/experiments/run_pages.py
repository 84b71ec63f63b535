"""Write a run as markdown or as one HTML page."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from evalscribe.experiments.run_text import (
    counts_line,
    detail_lines,
    explains_failure,
    item_lines,
    origin_lines,
    score_line,
    target_line,
    text_of,
    word,
)
from evalscribe.model.experiment import RULE, Clause, RunReport, RunSummary, ScorerSummary, TrialDetail
from evalscribe.model.score import Score
from evalscribe.text import cut, one_line, pluralise, prose, visible

TEXT = 4_000
"""Maximum characters of an input, an output or an expected output."""
MARKS = {"passed": "✅", "failed": "❌", "inconclusive": "❔"}


def markdown_lines(report: RunReport, tries: Iterable[TrialDetail], room: int | None = None) -> Iterator[str]:
    """Render the verdict, the evidence for it, and failed trials in folded sections.

    What does not fit is counted, with a note on where to find it.

    Args:
        room: Maximum bytes of UTF-8, including line ends.
    """
    spent = 0
    for line in _head(report):
        spent += _size(line)
        yield line
    shown = 0
    for one in tries:
        if one.verdict == "passed":
            continue
        block = "\n".join(_failure(report.summary, one))
        spent += _size(block)
        if room is not None and spent + _size(_rest(report.summary, shown)) > room:
            yield _rest(report.summary, shown)
            return
        shown += 1
        yield block


def _size(line: str) -> int:
    return len(line.encode()) + 1


def _rest(found: RunSummary, shown: int) -> str:
    """Render the number of trials that did not pass and are not shown."""
    number = found.counts.failed + found.counts.error + found.counts.unscored - shown
    return f"\n{number:,} more did not pass; all are in `evalscribe reports export {found.run_id} -f html -o run.html`."


def _head(report: RunReport) -> Iterator[str]:
    found = report.summary
    yield f"## {_verdict(report)} {prose(found.experiment)}: {prose(found.name or found.run_id)}"
    yield ""
    yield f"**Pass rate {found.pass_rate.said}**; {counts_line(found.counts)}. {RULE.capitalize()}."
    yield ""
    yield from _gate(report)
    yield from _scorers(found)
    facts = f"Run `{found.run_id}`, version {found.version} (`{found.experiment_version_id}`), dataset "
    yield f"{facts}{prose(found.dataset)} (`{found.dataset_version_id}`), {prose(target_line(found))}"
    if found.flaky:
        yield ""
        yield f"{pluralise(len(found.flaky), 'flaky item')}: {prose(', '.join(found.flaky))}"
    yield ""


def _verdict(report: RunReport) -> str:
    if report.gate is None:
        return "⏳"
    return MARKS["passed" if report.gate.passed else "failed"]


def _gate(report: RunReport) -> Iterator[str]:
    if report.gate is None:
        return
    if report.gate.reason:
        yield f"The gate is not passed: {prose(report.gate.reason)}"
        yield ""
    yield "| Gate | | |"
    yield "|---|---|---|"
    yield from (_clause(clause) for clause in report.gate.clauses)
    yield ""


def _clause(clause: Clause) -> str:
    said = f"{clause.said}; {clause.luck}" if clause.luck else clause.said
    return f"| {clause.name} | {MARKS[clause.verdict]} {clause.verdict} | {_cell(said)} |"


def _scorers(found: RunSummary) -> Iterator[str]:
    yield "| Scorer | Passed | Mean | Broke | Unscored |"
    yield "|---|---|--:|--:|--:|"
    yield from (_scorer(one) for one in found.scorers)
    yield ""


def _scorer(one: ScorerSummary) -> str:
    cells = f"{_cell(_scorer_name(one))} | {one.pass_rate.said} | {_decimal(one.mean)}"
    return f"| {cells} | {sum(one.errors.values()):,} | {one.unscored:,} |"


def _scorer_name(one: ScorerSummary | Score) -> str:
    return one.scorer if one.required else f"{one.scorer} (not required)"


def _decimal(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _failure(found: RunSummary, one: TrialDetail) -> Iterator[str]:
    name = f"{one.item_key} #{one.repetition}" if found.repetitions > 1 else one.item_key
    yield f"<details><summary>{one.verdict}: <code>{escape(cut(one_line(name), 300))}</code></summary>"
    yield ""
    yield from (f"- {prose(score_line(score))}" for score in one.scores if explains_failure(score))
    yield ""
    for title, text in _texts(one):
        yield from _fence(title, text)
    yield "</details>"
    yield ""


def _texts(one: TrialDetail) -> Iterator[tuple[str, str]]:
    """Yield input, expected output, and error or output of a trial, each with its title."""
    yield "input", text_of(one.input)
    if one.expected_output is not None:
        yield "expected", text_of(one.expected_output)
    if one.error is not None:
        yield "error", one.error
    elif one.verdict != "missing":
        yield "output", text_of(one.output)


def _fence(title: str, text: str) -> Iterator[str]:
    """Render a code block whose fence no line of the text can close."""
    body = cut(visible(text), TEXT)
    marks = "`" * max(3, 1 + max(map(len, re.findall("`+", body)), default=0))
    yield f"{title}"
    yield f"{marks}text"
    yield body
    yield marks


def _cell(text: str) -> str:
    return prose(text).replace("|", "\\|")


WHY = 140
"""Maximum characters of the reason beside a trial's name."""


def html_lines(report: RunReport, trials: Iterable[TrialDetail]) -> Iterator[str]:
    """Render the run as one page. Holds one trial in memory at a time."""
    run = report.summary
    facts = "\n".join((*origin_lines(run), *item_lines(run), *detail_lines(run)))
    rest = ""
    for part in _page().generate(run=run, gate=report.gate, facts=facts, trials=trials):
        *lines, rest = f"{rest}{part}".split("\n")
        yield from lines


@cache
def _page() -> Template:
    """Compile the template. Everything that it prints is escaped, without characters that cannot be seen."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=lambda value: visible(value) if isinstance(value, str) else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    functions = (counts_line, pluralise, word, _decimal, _scorer_name, _texts, _why)
    environment.globals |= {function.__name__.removeprefix("_"): function for function in functions}
    return environment.get_template("run_page.html.j2", globals={"rule": RULE})


def _why(one: TrialDetail) -> str:
    """Return why a trial did not pass: its error, or the first scorer's explanation."""
    if one.error is not None or one.verdict in ("passed", "missing"):
        return cut(one_line(one.error or ""), WHY)
    said = (
        f"{score.scorer}: {score.explanation}" for score in one.scores if score.required and explains_failure(score)
    )
    return cut(one_line(next(said, "")), WHY)
