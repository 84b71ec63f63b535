"""Write a run as CSV, JSON lines, JSON or JUnit XML."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import StringIO
from xml.sax.saxutils import escape, quoteattr

from pydantic import JsonValue

from evalscribe.errors import UsageError
from evalscribe.experiments import run_pages
from evalscribe.experiments.run_text import explains_failure, score_line, text_of, word
from evalscribe.model.experiment import RunReport, RunSummary, TrialDetail
from evalscribe.model.score import Score

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
OF_SCORER = ("status", "passed", "value", "label", "explanation")
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


def csv_lines(report: RunReport, tries: Iterable[TrialDetail]) -> Iterator[str]:
    """Render a header and a line per trial, with five columns per scorer. Lines end with CR; the caller adds LF."""
    scorers = [one.scorer for one in report.summary.scorers]
    yield _line([*COLUMNS, *(f"{name}.{part}" for name in scorers for part in OF_SCORER)])
    for one in tries:
        by_name = {score.scorer: score for score in one.scores}
        yield _line([*_try_cells(one), *(cell for name in scorers for cell in _score_cells(by_name.get(name)))])


def _try_cells(one: TrialDetail) -> tuple[object, ...]:
    usage = one.usage
    return (
        one.item_key,
        one.repetition,
        one.split,
        one.verdict,
        one.error,
        _json(one.input),
        _json(one.expected_output),
        _json(one.output),
        one.duration_ms,
        usage and usage.input_tokens,
        usage and usage.output_tokens,
        usage and usage.cost_usd,
        one.model,
        one.run_item_id,
    )


def _score_cells(score: Score | None) -> tuple[object, ...]:
    if score is None:
        return ("",) * len(OF_SCORER)
    passed = None if score.passed is None else str(score.passed).lower()
    return score.error_type or score.status, passed, score.value, score.label, score.explanation


def _json(value: JsonValue) -> str | None:
    return None if value is None else text_of(value)


def _line(cells: Iterable[object]) -> str:
    out = StringIO()
    csv.writer(out).writerow(map(safe, cells))
    return out.getvalue().removesuffix("\n")


def safe(cell: object) -> str:
    """Prefix a cell that a spreadsheet would read as a formula with `'`, as the spreadsheet itself does."""
    text = "" if cell is None else str(cell)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def json_lines(_report: RunReport, tries: Iterable[TrialDetail]) -> Iterator[str]:
    for one in tries:
        yield one.model_dump_json()


def json_document(report: RunReport, tries: Iterable[TrialDetail]) -> Iterator[str]:
    """Render `{"summary": …, "gate": …, "tries": […]}` with one trial per line."""
    gate = "null" if report.gate is None else report.gate.model_dump_json()
    yield f'{{"summary": {report.summary.model_dump_json()},'
    yield f' "gate": {gate},'
    yield ' "tries": ['
    before = None
    for one in tries:
        if before is not None:
            yield f"{before},"
        before = f"  {one.model_dump_json()}"
    if before is not None:
        yield before
    yield " ]}"


_ILLEGAL = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"failed": "failure", "error": "error", "unscored": "error", "missing": "skipped"}


def junit_lines(report: RunReport, tries: Iterable[TrialDetail]) -> Iterator[str]:
    """Render JUnit XML.

    A trial that a scorer failed is a failure, one without output or with a broken required scorer is an error, and one
    that never ran is skipped.
    """
    found = report.summary
    broken = found.counts.error + found.counts.unscored
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield "<testsuites>"
    yield (
        f"<testsuite name={_attribute(found.experiment)} tests={_attribute(found.tries)} "
        f"failures={_attribute(found.counts.failed)} errors={_attribute(broken)} "
        f"skipped={_attribute(found.counts.missing)} timestamp={_attribute(found.started_at or found.created_at)}>"
    )
    yield from _properties(_of_run(report))
    for one in tries:
        yield from _case(found, one)
    yield "</testsuite>"
    yield "</testsuites>"


def _of_run(report: RunReport) -> Iterator[tuple[str, object]]:
    found = report.summary
    yield "run_id", found.run_id
    yield "experiment_version_id", found.experiment_version_id
    yield "dataset_version_id", found.dataset_version_id
    yield "pass_rate", found.pass_rate.said
    if report.gate is not None:
        yield "gate", "passed" if report.gate.passed else "failed"


def _case(found: RunSummary, one: TrialDetail) -> Iterator[str]:
    name = f"{one.item_key}#{one.repetition}" if found.repetitions > 1 else one.item_key
    seconds = f"{(one.duration_ms or 0.0) / 1000:.3f}"
    classname = found.dataset or found.dataset_version_id
    yield f"<testcase classname={_attribute(classname)} name={_attribute(name)} time={_attribute(seconds)}>"
    yield from _properties(_junit_test_case(one))
    if element := _ELEMENTS.get(one.verdict):
        why = [score_line(score) for score in one.scores if explains_failure(score)]
        message = one.error or next(iter(why), "the run ended first" if one.verdict == "missing" else one.verdict)
        start = f"<{element} message={_attribute(message)} type={_attribute(one.verdict)}>"
        yield f"{start}{_text(_body(one, why))}</{element}>"
    yield "</testcase>"


def _body(one: TrialDetail, why: list[str]) -> str:
    if one.verdict == "missing":
        return ""
    expected = [] if one.expected_output is None else [f"expected: {text_of(one.expected_output)}"]
    answer = one.error if one.error is not None else f"output: {text_of(one.output)}"
    return "\n".join([f"input: {text_of(one.input)}", *expected, answer, *why])


def _junit_test_case(one: TrialDetail) -> Iterator[tuple[str, object]]:
    for score in one.scores:
        value = "" if score.value is None else f" {score.value:g}"
        yield f"score.{score.scorer}", f"{word(score)}{value}"
    if one.run_item_id:
        yield "run_item_id", one.run_item_id


def _properties(told: Iterable[tuple[str, object]]) -> Iterator[str]:
    rows = [f"<property name={_attribute(name)} value={_attribute(value)}/>" for name, value in told]
    if rows:
        yield f"<properties>{''.join(rows)}</properties>"


def _attribute(value: object) -> str:
    return quoteattr(_legal(str(value)))


def _text(text: str) -> str:
    return escape(_legal(text))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)


Tries = Callable[[], Iterable[TrialDetail]]
"""Function that returns every trial of the run, from the first one, each time it is called."""
WRITERS: Mapping[str, Callable[[RunReport, Iterable[TrialDetail]], Iterator[str]]] = {
    "csv": csv_lines,
    "json": json_document,
    "jsonl": json_lines,
    "junit": junit_lines,
    "md": run_pages.markdown_lines,
    "html": run_pages.html_lines,
}


def export_lines(form: str, report: RunReport, tries: Tries) -> Iterator[str]:
    """Render the run as lines without line ends. Raises `UsageError` for an unknown format.

    The page begins with trials that did not pass.
    """
    if form not in WRITERS:
        raise UsageError(f"--artifact-format {form!r} is unknown; use one of {', '.join(WRITERS)}")
    return WRITERS[form](report, _worst_first(tries) if form == "html" else tries())


def _worst_first(tries: Tries) -> Iterator[TrialDetail]:
    """Yield trials that did not pass first. Reads all trials twice to keep only one in memory."""
    yield from (one for one in tries() if one.verdict != "passed")
    yield from (one for one in tries() if one.verdict == "passed")
