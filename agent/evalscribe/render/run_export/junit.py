"""Tries as JUnit XML: what CI servers show, and what `import` reads again."""

import re
from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from evalscribe.model.experiment import RunReport, RunSummary, TrialDetail
from evalscribe.render.run_text import said, telling, text_of, word

_ILLEGAL = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"failed": "failure", "error": "error", "unscored": "error", "missing": "skipped"}


def lines(report: RunReport, tries: Iterable[TrialDetail]) -> Iterator[str]:
    """Failed by a scorer is a failure; no answer, or a required scorer that broke, an error; never tried, skipped."""
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
    yield from _properties(_of_try(one))
    if element := _ELEMENTS.get(one.verdict):
        why = [said(score) for score in one.scores if telling(score)]
        message = one.error or next(iter(why), "the run ended before" if one.verdict == "missing" else one.verdict)
        start = f"<{element} message={_attribute(message)} type={_attribute(one.verdict)}>"
        yield f"{start}{_text(_body(one, why))}</{element}>"
    yield "</testcase>"


def _body(one: TrialDetail, why: list[str]) -> str:
    if one.verdict == "missing":
        return ""
    expected = [] if one.expected_output is None else [f"expected: {text_of(one.expected_output)}"]
    answer = one.error if one.error is not None else f"output: {text_of(one.output)}"
    return "\n".join([f"input: {text_of(one.input)}", *expected, answer, *why])


def _of_try(one: TrialDetail) -> Iterator[tuple[str, object]]:
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
