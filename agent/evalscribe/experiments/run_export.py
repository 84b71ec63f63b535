"""Write a run of an experiment as CSV, JSON lines, JSON, JUnit XML, Markdown or one HTML page."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, indent, tostring

from markupsafe import Markup
from pydantic import JsonValue

from evalscribe.errors import UsageError
from evalscribe.experiments.run_text import (
    counts_line,
    detail_lines,
    different_failures,
    error_lines,
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

if TYPE_CHECKING:
    from jinja2 import Template

TEXT_LENGTH = 4_000
"""Maximum number of characters of an input, an output or an expected output that are shown."""
MARKS = {"passed": "✅", "failed": "❌", "inconclusive": "❔"}


def markdown_lines(report: RunReport, trials: Iterable[TrialDetail], max_bytes: int | None = None) -> Iterator[str]:
    """Render the gate, the results, and a folded section for each trial that did not pass.

    Trials with the same error share a section. The last line counts the trials without a section of their own, and
    shows the command that exports them.

    Args:
        max_bytes: Maximum size of the text in bytes (UTF-8, including line ends); None for no limit.
    """
    size = 0
    for line in _head(report):
        size += _size(line)
        yield line
    shown = 0
    for trial in different_failures(trial for trial in trials if trial.verdict not in ("passed", "missing")):
        block = "\n".join(_failure(report.summary, trial))
        size += _size(block)
        # Room is kept for the last line, which says what is missing.
        if max_bytes is not None and size + _size(_more_line(report.summary, shown)) > max_bytes:
            break
        shown += 1
        yield block
    if more_line := _more_line(report.summary, shown):
        yield more_line


def _size(line: str) -> int:
    return len(line.encode()) + 1


def _more_line(summary: RunSummary, shown: int) -> str:
    """Render the number of trials that did not pass and are not shown. The line is empty if all are shown."""
    number = summary.counts.failed + summary.counts.error + summary.counts.unscored - shown
    export = f"evalscribe experiments runs export {summary.run_id} --format html -o run.html"
    return f"\n{number:,} more did not pass; all are in `{export}`." if number else ""


def _head(report: RunReport) -> Iterator[str]:
    summary = report.summary
    yield f"## {_gate_mark(report)}{prose(summary.experiment)}: {prose(summary.name or summary.run_id)}"
    yield ""
    yield f"**Pass rate {summary.pass_rate.text}**; {counts_line(summary.counts)}. {RULE.capitalize()}."
    yield ""
    for line in error_lines(summary):
        yield f"- {prose(line)}"
        yield ""
    yield from _gate(report)
    yield from _scorers(summary)
    facts = f"Run `{summary.run_id}`, version {summary.version} (`{summary.experiment_version_id}`), dataset "
    yield f"{facts}{prose(summary.dataset)} (`{summary.dataset_version_id}`), {prose(target_line(summary))}"
    if summary.flaky:
        yield ""
        yield f"{pluralise(len(summary.flaky), 'flaky item')}: {prose(', '.join(summary.flaky))}"
    yield ""


def _gate_mark(report: RunReport) -> str:
    """Return a symbol for the gate's result, followed by a space.

    Without a gate decision, return an hourglass if the run is still in progress, else an empty text.
    """
    if report.gate is None:
        return "" if report.summary.ended_at else "⏳ "
    return f"{MARKS['passed' if report.gate.passed else 'failed']} "


def _gate(report: RunReport) -> Iterator[str]:
    if report.gate is None:
        return
    if report.gate.reason:
        yield f"The gate did not pass: {prose(report.gate.reason)}"
        yield ""
    yield "| Gate | | |"
    yield "|---|---|---|"
    yield from (_clause(clause, report.gate) for clause in report.gate.clauses)
    yield ""


def _clause(clause: Clause, gate: Gate) -> str:
    message = f"{clause.said}; {clause.luck}" if clause.luck else clause.said
    name = clause.name if gate.stated else "none is set"
    return f"| {name} | {MARKS[clause.verdict]} {clause.verdict} | {_cell(message)} |"


def _scorers(summary: RunSummary) -> Iterator[str]:
    yield "| Scorer | Passed | Mean | Broke | Unscored |"
    yield "|---|---|--:|--:|--:|"
    yield from (_scorer(scorer) for scorer in summary.scorers)
    yield ""


def _scorer(scorer: ScorerSummary) -> str:
    cells = f"{_cell(_scorer_name(scorer))} | {scorer.pass_rate.text} | {_decimal(scorer.mean)}"
    return f"| {cells} | {sum(scorer.errors.values()):,} | {scorer.unscored:,} |"


def _scorer_name(scorer: ScorerSummary | Score) -> str:
    return scorer.scorer if scorer.required else f"{scorer.scorer} (not required)"


def _decimal(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _failure(summary: RunSummary, trial: TrialDetail) -> Iterator[str]:
    name = f"{trial.item_key} #{trial.repetition}" if summary.repetitions > 1 else trial.item_key
    yield f"<details><summary>{trial.verdict}: <code>{escape(cut(one_line(name), 300))}</code></summary>"
    yield ""
    yield from (f"- {prose(score_line(score))}" for score in trial.scores if explains_failure(score))
    yield ""
    for title, text in trial_texts(trial):
        yield from _fence(title, text)
    yield "</details>"
    yield ""


def trial_texts(trial: TrialDetail) -> Iterator[tuple[str, str]]:
    """Yield the input, the expected output, and the error or output of a trial, each with its title."""
    yield "input", text_of(trial.input)
    if trial.expected_output is not None:
        yield "expected", text_of(trial.expected_output)
    if trial.error is not None:
        yield "error", trial.error
        if trial.log:
            yield "log", trial.log
    elif trial.verdict != "missing":
        yield "output", text_of(trial.output)


def _fence(title: str, text: str) -> Iterator[str]:
    body = cut(visible(text), TEXT_LENGTH)
    # The fence is longer than any row of backticks in the text, so that no line of the text closes the code block.
    backticks = "`" * max(3, 1 + max(map(len, re.findall("`+", body)), default=0))
    yield f"{title}"
    yield f"{backticks}text"
    yield body
    yield backticks


def _cell(text: str) -> str:
    return prose(text).replace("|", "\\|")


REASON_LENGTH = 140
"""Maximum number of characters of the reason that is shown beside a trial's name."""


def html_lines(report: RunReport, trials: Iterable[TrialDetail]) -> Iterator[str]:
    """Render the run as one page. Only one trial is in memory at a time."""
    run = report.summary
    facts = "\n".join((*origin_lines(run), *item_lines(run), *detail_lines(run)))
    partial_line = ""
    for part in _page().generate(run=run, gate=report.gate, facts=facts, trials=trials):
        # A part can end within a line. The last part ends with a line end, so nothing remains after the loop.
        *lines, partial_line = f"{partial_line}{part}".split("\n")
        yield from lines


TEMPLATES = Path(__file__).parent
"""Folder with two templates: one for a run's page, and one for the rows of its tables."""


def row_functions() -> dict[str, Callable[..., object]]:
    """Return the functions that the templates can call, by name."""
    functions = (counts_line, error_lines, pluralise, word, _decimal, _scorer_name)
    return {function.__name__.removeprefix("_"): function for function in functions}


@cache
def _page() -> "Template":
    """Compile the page's template. Values are escaped, and their invisible characters are made visible."""
    # Imported here, because commands that list things load this module but need no page.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        # Invisible characters are shown only in plain text. Markup comes from the templates themselves.
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {**row_functions(), "texts": trial_texts, "why": why_not_passed}
    return environment.get_template("run_page.html.j2", globals={"rule": RULE})


def why_not_passed(trial: TrialDetail) -> str:
    """Return why a trial did not pass.

    The reason is the trial's error, or the explanation of the first required scorer that failed or gave no result. It
    is empty for a trial that passed or was not run.
    """
    if trial.error is not None or trial.verdict in ("passed", "missing"):
        return cut(one_line(trial.error or ""), REASON_LENGTH)
    reasons = (
        f"{score.scorer}: {score.explanation}" for score in trial.scores if score.required and explains_failure(score)
    )
    return cut(one_line(next(reasons, "")), REASON_LENGTH)


COLUMNS = (
    "item_key",
    "repetition",
    "split",
    "verdict",
    "error",
    "input",
    "expected_output",
    "output",
    "duration_ms",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "model",
    "run_item_id",
)
SCORER_COLUMNS = ("status", "passed", "value", "label", "explanation")
# A spreadsheet can read a cell that begins with one of these characters as a formula,
# and a formula can send data elsewhere.
_FORMULA = re.compile(r"[=+\-@\t\r]")
# A negative number begins like a formula, but must stay a number.
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


def csv_lines(report: RunReport, trials: Iterable[TrialDetail]) -> Iterator[str]:
    """Render CSV: a header, then a line per trial, with five columns per scorer.

    Lines end with CR; callers add LF.
    """
    scorers = [scorer.scorer for scorer in report.summary.scorers]
    yield _line([*COLUMNS, *(f"{name}.{part}" for name in scorers for part in SCORER_COLUMNS)])
    for trial in trials:
        by_name = {score.scorer: score for score in trial.scores}
        yield _line([*_trial_cells(trial), *(cell for name in scorers for cell in _score_cells(by_name.get(name)))])


def _trial_cells(trial: TrialDetail) -> tuple[object, ...]:
    usage = trial.usage
    return (
        trial.item_key,
        trial.repetition,
        trial.split,
        trial.verdict,
        trial.error,
        _json(trial.input),
        _json(trial.expected_output),
        _json(trial.output),
        trial.duration_ms,
        usage and usage.input_tokens,
        usage and usage.output_tokens,
        usage and usage.cost_usd,
        trial.model,
        trial.run_item_id,
    )


def _score_cells(score: Score | None) -> tuple[object, ...]:
    if score is None:
        return ("",) * len(SCORER_COLUMNS)
    passed = None if score.passed is None else str(score.passed).lower()
    return score.error_type or score.status, passed, score.value, score.label, score.explanation


def _json(value: JsonValue) -> str | None:
    return None if value is None else text_of(value)


def _line(cells: Iterable[object]) -> str:
    buffer = StringIO()
    csv.writer(buffer).writerow(map(safe, cells))
    return buffer.getvalue().removesuffix("\n")


def safe(cell: object) -> str:
    """Put `'` before a cell that a spreadsheet would read as a formula."""
    # Spreadsheets use the same escape.
    text = "" if cell is None else str(cell)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def json_lines(_report: RunReport, trials: Iterable[TrialDetail]) -> Iterator[str]:
    for trial in trials:
        yield trial.model_dump_json()


def json_document(report: RunReport, trials: Iterable[TrialDetail]) -> Iterator[str]:
    """Render `{"summary": …, "gate": …, "tries": […]}` with one trial per line."""
    gate = "null" if report.gate is None else report.gate.model_dump_json()
    yield f'{{"summary": {report.summary.model_dump_json()},'
    yield f' "gate": {gate},'
    yield ' "tries": ['
    # A line is held back until the next is known, because no comma may follow the last trial.
    previous_line = None
    for trial in trials:
        if previous_line is not None:
            yield f"{previous_line},"
        previous_line = f"  {trial.model_dump_json()}"
    if previous_line is not None:
        yield previous_line
    yield " ]}"


# All characters that XML 1.0 does not allow in a document, not even escaped.
_ILLEGAL = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"failed": "failure", "error": "error", "unscored": "error", "missing": "skipped"}


def junit_lines(report: RunReport, trials: Iterable[TrialDetail]) -> Iterator[str]:
    """Render JUnit XML.

    A failed trial is a failure; a trial without output, or with a broken required scorer, is an error; a trial that
    never ran is skipped. If the run itself failed, one more error is added.
    """
    summary = report.summary
    failed = summary.state == "failed"
    counts = {
        "tests": summary.tries + failed,
        "failures": summary.counts.failed,
        "errors": summary.counts.error + summary.counts.unscored + failed,
        "skipped": summary.counts.missing,
    }
    suite = _element("testsuite", name=summary.experiment, **counts, timestamp=summary.started_at or summary.created_at)
    _add_properties(suite, _run_properties(report))
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield "<testsuites>"
    # The element is left open, so that test cases are written one at a time. It always has properties, so its end tag
    # stands on a line of its own.
    yield _xml(suite).removesuffix("\n</testsuite>")
    if failed:
        test_case = _element("testcase", classname=summary.dataset or summary.dataset_version_id, name="the run itself")
        test_case.append(_element("error", message=summary.reason or "the run failed", type="run"))
        yield _xml(test_case)
    for trial in trials:
        yield _xml(_test_case(summary, trial))
    yield "</testsuite>"
    yield "</testsuites>"


def _run_properties(report: RunReport) -> Iterator[tuple[str, object]]:
    summary = report.summary
    yield "run_id", summary.run_id
    yield "experiment_version_id", summary.experiment_version_id
    yield "dataset_version_id", summary.dataset_version_id
    yield "pass_rate", summary.pass_rate.text
    if report.gate is not None:
        yield "gate", "passed" if report.gate.passed else "failed"


def _test_case(summary: RunSummary, trial: TrialDetail) -> Element:
    name = f"{trial.item_key}#{trial.repetition}" if summary.repetitions > 1 else trial.item_key
    seconds = f"{(trial.duration_ms or 0.0) / 1000:.3f}"
    test_case = _element("testcase", classname=summary.dataset or summary.dataset_version_id, name=name, time=seconds)
    _add_properties(test_case, _trial_properties(trial))
    if tag := _ELEMENTS.get(trial.verdict):
        reasons = [score_line(score) for score in trial.scores if explains_failure(score)]
        message = trial.error or next(
            iter(reasons), "the run ended first" if trial.verdict == "missing" else trial.verdict
        )
        outcome = _element(tag, message=message, type=trial.verdict)
        outcome.text = _legal(_body(trial, reasons))
        test_case.append(outcome)
    return test_case


def _body(trial: TrialDetail, reasons: list[str]) -> str:
    if trial.verdict == "missing":
        return ""
    expected = [] if trial.expected_output is None else [f"expected: {text_of(trial.expected_output)}"]
    answer = trial.error if trial.error is not None else f"output: {text_of(trial.output)}"
    log = [trial.log] if trial.log else []
    return "\n".join([f"input: {text_of(trial.input)}", *expected, answer, *reasons, *log])


def _trial_properties(trial: TrialDetail) -> Iterator[tuple[str, object]]:
    for score in trial.scores:
        value = "" if score.value is None else f" {score.value:g}"
        yield f"score.{score.scorer}", f"{word(score)}{value}"
    if trial.run_item_id:
        yield "run_item_id", trial.run_item_id


def _add_properties(parent: Element, values: Iterable[tuple[str, object]]) -> None:
    properties = _element("properties")
    properties.extend(_element("property", name=name, value=value) for name, value in values)
    if len(properties):
        parent.append(properties)


def _element(tag: str, **attributes: object) -> Element:
    return Element(tag, {name: _legal(str(value)) for name, value in attributes.items()})


def _xml(element: Element) -> str:
    indent(element)
    return tostring(element, encoding="unicode")


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)


Tries = Callable[[], Iterable[TrialDetail]]
"""Function that returns all trials of the run. Each call starts again with the first trial."""
WRITERS: Mapping[str, Callable[[RunReport, Iterable[TrialDetail]], Iterator[str]]] = {
    "csv": csv_lines,
    "json": json_document,
    "jsonl": json_lines,
    "junit": junit_lines,
    "md": markdown_lines,
    "html": html_lines,
}


def export_lines(form: str, report: RunReport, load_trials: Tries) -> Iterator[str]:
    """Render the run as lines without line ends. Raises `UsageError` for an unknown format.

    In the HTML page, the trials that did not pass come first.
    """
    if form not in WRITERS:
        raise UsageError(
            f"`artifact_format` {form!r} is unknown; use one of {', '.join(WRITERS)}", fields=("artifact_format",)
        )
    return WRITERS[form](report, _worst_first(load_trials) if form == "html" else load_trials())


def _worst_first(load_trials: Tries) -> Iterator[TrialDetail]:
    """Yield the trials that did not pass, then the trials that passed."""
    # The trials are loaded twice, so that only one trial is in memory at a time.
    yield from (trial for trial in load_trials() if trial.verdict != "passed")
    yield from (trial for trial in load_trials() if trial.verdict == "passed")
