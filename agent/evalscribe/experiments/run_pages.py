"""Write a run as markdown or as one HTML page."""

import re
from collections.abc import Iterable, Iterator
from html import escape

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
from evalscribe.model.experiment import RULE, Clause, Gate, RunReport, RunSummary, ScorerSummary, TrialDetail
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
        yield f"The gate did not pass: {prose(report.gate.reason)}"
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
    yield from (f"- {prose(score_line(score))}" for score in one.scores if explains_failure(score))
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

STYLE = """
:root{color-scheme:light dark;--line:#d0d7de;--soft:#f6f8fa;--good:#1a7f37;--bad:#cf222e;--odd:#9a6700}
@media(prefers-color-scheme:dark){:root{--line:#3d444d;--soft:#151b23;--good:#3fb950;--bad:#f85149;--odd:#d29922}}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
table{border-collapse:collapse;width:100%;display:block;overflow-x:auto}
td,th{border-bottom:1px solid var(--line);padding:.35rem .6rem;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
td{overflow-wrap:anywhere;min-width:8rem}td:last-child{min-width:11rem}td[class]{min-width:3rem;overflow-wrap:normal}
@media(max-width:40rem){td,th{padding:.35rem .25rem}td{min-width:5.5rem}td:last-child{min-width:8rem}}
pre{background:var(--soft);padding:.6rem;margin:.3rem 0 .8rem;border-radius:6px}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
details{border-bottom:1px solid var(--line);padding:.35rem 0}summary{cursor:pointer}
summary{overflow-wrap:anywhere}pre{unicode-bidi:plaintext}code{unicode-bidi:isolate}
.passed{color:var(--good)}.failed,.error{color:var(--bad)}.unscored,.missing,.inconclusive{color:var(--odd)}
.word{display:inline-block;min-width:6rem;font-weight:600}small{opacity:.75}
"""


def html_lines(report: RunReport, tries: Iterable[TrialDetail]) -> Iterator[str]:
    found = report.summary
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    yield f"<title>{_shown(found.experiment)}: {_shown(found.name or found.run_id)}</title>"
    yield f"<style>{STYLE}</style></head><body>"
    yield from _html_head(report)
    yield "<h2>Scorers</h2>"
    yield from _html_scorers(found)
    yield f"<h2>{pluralise(found.tries, 'try')}</h2>"
    for one in tries:
        yield from _try(found, one)
    yield "</body></html>"


def _html_head(report: RunReport) -> Iterator[str]:
    found = report.summary
    word = "running" if report.gate is None else "passed" if report.gate.passed else "failed"
    named = f"{_shown(found.experiment)}: {_shown(found.name or found.run_id)}"
    yield f'<h1>{named} <span class="{word}">{word}</span></h1>'
    yield f"<p><strong>Pass rate {_shown(found.pass_rate.said)}</strong>; {_shown(counts_line(found.counts))}"
    yield f"<br><small>{_shown(RULE)}</small></p>"
    if report.gate is not None:
        yield from _html_gate(report.gate)
    yield f"<h2>Run <code>{_shown(found.run_id)}</code></h2>"
    facts = (*origin_lines(found), *item_lines(found), *detail_lines(found))
    yield f"<pre>{_shown(chr(10).join(facts))}</pre>"


def _html_gate(gate: Gate) -> Iterator[str]:
    yield "<h2>Gate</h2>"
    if gate.reason:
        yield f'<p class="failed">{_shown(gate.reason)}</p>'
    yield "<table><tr><th>Clause</th><th>Verdict</th><th>What was seen</th></tr>"
    for clause in gate.clauses:
        verdict = f'<td class="{clause.verdict}">{clause.verdict}</td>'
        luck = f"<br><small>{_shown(clause.luck)}</small>" if clause.luck else ""
        yield f"<tr><td>{clause.name}</td>{verdict}<td>{_shown(clause.said)}{luck}</td></tr>"
    yield "</table>"


def _html_scorers(found: RunSummary) -> Iterator[str]:
    heads = "".join(f'<th class="n">{head}</th>' for head in ("Mean", "Broke", "Unscored"))
    yield f"<table><tr><th>Scorer</th><th>Passed</th>{heads}</tr>"
    for one in found.scorers:
        name = one.scorer if one.required else f"{one.scorer} (not required)"
        mean = "" if one.mean is None else f"{one.mean:.3f}"
        numbers = (mean, f"{sum(one.errors.values()):,}", f"{one.unscored:,}")
        cells = "".join(f'<td class="n">{number}</td>' for number in numbers)
        yield f"<tr><td>{_shown(name)}</td><td>{_shown(one.pass_rate.said)}</td>{cells}</tr>"
    yield "</table>"


def _try(found: RunSummary, one: TrialDetail) -> Iterator[str]:
    word = f'<span class="word {one.verdict}">{one.verdict}</span>'
    name = f"<code>{_shown(one.item_key)}</code>{f' #{one.repetition}' if found.repetitions > 1 else ''}"
    yield f"<details><summary>{word}{name} &nbsp;<small>{_shown(_why(one))}</small></summary>"
    yield from _block("input", text_of(one.input))
    if one.expected_output is not None:
        yield from _block("expected", text_of(one.expected_output))
    if one.error is not None:
        yield from _block("error", one.error)
    elif one.verdict != "missing":
        yield from _block("output", text_of(one.output))
    yield from _scores(one.scores)
    yield "</details>"


def _why(one: TrialDetail) -> str:
    """Return why a trial did not pass: its error, or the first scorer's explanation."""
    if one.error is not None or one.verdict in ("passed", "missing"):
        return cut(one_line(one.error or ""), WHY)
    said = (
        f"{score.scorer}: {score.explanation}" for score in one.scores if score.required and explains_failure(score)
    )
    return cut(one_line(next(said, "")), WHY)


def _scores(scores: Iterable[Score]) -> Iterator[str]:
    rows = [_score(score) for score in scores]
    if rows:
        yield f'<table><tr><th>Scorer</th><th></th><th class="n">Value</th><th>Why</th></tr>{"".join(rows)}</table>'


def _score(score: Score) -> str:
    kind = score.status if score.status != "ok" else "passed" if score.passed else "failed"
    value = "" if score.value is None else f"{score.value:.3f}"
    why = f"{_shown(score.explanation)} <small>[{_shown(score.id)}]</small>"
    name = score.scorer if score.required else f"{score.scorer} (not required)"
    said = f'<td class="{kind}">{word(score)}{f", {_shown(score.label)}" if score.label else ""}</td>'
    return f'<tr><td>{_shown(name)}</td>{said}<td class="n">{value}</td><td>{why}</td></tr>'


def _block(title: str, text: str) -> Iterator[str]:
    yield f"<small>{title}</small>"
    yield f"<pre>{_shown(text)}</pre>"


def _shown(text: str) -> str:
    return escape(visible(text))
