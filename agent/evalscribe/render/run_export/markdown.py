"""A run as markdown, as a step's summary in GitHub Actions shows it; other people's words can be no more than words."""

import re
from collections.abc import Iterable, Iterator
from html import escape

from evalscribe.model.experiment import RULE, Clause, RunReport, RunSummary, ScorerSummary, TrialDetail
from evalscribe.render.run_text import counts_line, said, target_line, telling, text_of
from evalscribe.text import cut, one_line, pluralise, prose, visible

TEXT = 4_000
"""Characters of an input, an output or an expected output."""
MARKS = {"passed": "✅", "failed": "❌", "inconclusive": "❔"}


def lines(report: RunReport, tries: Iterable[TrialDetail], room: int | None = None) -> Iterator[str]:
    """The verdict, what it rests on, and what did not pass, folded. `room`: bytes of UTF-8 at most, line ends counted.

    What has no room is counted, with where to find it.
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
    """Of what was tried."""
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
    mean = "" if one.mean is None else f"{one.mean:.3f}"
    name = _cell(one.scorer if one.required else f"{one.scorer} (not required)")
    return f"| {name} | {one.pass_rate.said} | {mean} | {sum(one.errors.values()):,} | {one.unscored:,} |"


def _failure(found: RunSummary, one: TrialDetail) -> Iterator[str]:
    name = f"{one.item_key} #{one.repetition}" if found.repetitions > 1 else one.item_key
    yield f"<details><summary>{one.verdict}: <code>{escape(cut(one_line(name), 300))}</code></summary>"
    yield ""
    yield from (f"- {prose(said(score))}" for score in one.scores if telling(score))
    yield ""
    yield from _fence("input", text_of(one.input))
    if one.expected_output is not None:
        yield from _fence("expected", text_of(one.expected_output))
    if one.error is not None:
        yield from _fence("error", one.error)
    elif one.verdict != "missing":
        yield from _fence("output", text_of(one.output))
    yield "</details>"
    yield ""


def _fence(title: str, text: str) -> Iterator[str]:
    """No line of the text can end it."""
    body = cut(visible(text), TEXT)
    marks = "`" * max(3, 1 + max(map(len, re.findall("`+", body)), default=0))
    yield f"{title}"
    yield f"{marks}text"
    yield body
    yield marks


def _cell(text: str) -> str:
    return prose(text).replace("|", "\\|")
