"""Text built to be slow to parse stalls neither the analysis nor the reading of reports."""

from contextlib import suppress
from pathlib import Path

import pytest

from evalscribe.failures.prepare import summarise_evidence
from evalscribe.judging.pack import pack
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import Evidence
from evalscribe.model.finding import Failure
from evalscribe.model.run import Eval
from evalscribe.redaction.redact import redact
from evalscribe.reports.blocks import UnreadableReport
from evalscribe.reports.reading import PageSource, read_page
from evalscribe.sources.convex_payload import decode_evidence
from evalscribe.text import prose, visible
from support.hostile_runs import LOG, failed, payload
from support.machine_speed import cpu_below

SMALL, LARGE = 3_000, 300_000
LIMIT_S = 10
"""Several times the slowest case when run alone; a case that is not linear takes minutes."""
UNITS = (
    *("a", " ", '"', "`", "` `` ", "(", "[", "*", ":", "/", "a.", "-", "{", "<", "|", "#", "1", "_", "%", "'", "\\n"),
    *("key=", "token: ", "://a:b", "-----BEGIN PRIVATE KEY-----", "eyJ", "sk-", "bearer ", "A_KEY='a1"),
    *("error: ", "a.ts(1,2): error TS1: ", "at a (b:1:2) ", 'File "a", line 1 ', "FAIL a > b ", "expected 1 to be 2 "),
    *("\x1b[", "\u200b", "é", "C:\\", "deadbeef", "x.py:1:1: E1 ", "\n", "1\n", "error: a\n", "  at a (b:1:2)\n"),
)


def repeated(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


@pytest.mark.benchmark
@pytest.mark.parametrize("unit", UNITS)
def test_redaction_and_prose_are_fast_on_repetitive_text(unit: str) -> None:
    text = repeated(unit, 1_000_000)
    with cpu_below(LIMIT_S):
        redact(text)
        visible(text)
        prose(text)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("place", ["run.log", "a.py", "reason"])
def test_failure_with_repetitive_text_is_judged(place: str, unit: str) -> None:
    judge(place, repeated(unit, SMALL))


@pytest.mark.benchmark
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("place", ["run.log", "a.py", "reason"])
def test_large_failure_with_repetitive_text_is_judged_in_time(place: str, unit: str) -> None:
    with cpu_below(LIMIT_S):
        judge(place, repeated(unit, LARGE))


def judge(place: str, text: str) -> None:
    """Decode a payload with the text at `place`, and judge it."""
    entry = failed("e1")
    content = payload(entry)
    before = LOG.format(path=entry["evalPath"]) if place == "run.log" else ""
    content["outputFiles"][place] = before + text
    eval = Eval(id="e1", category="cat", name="task", failed_step="tests", reason=text if place == "reason" else None)
    evidence = decode_evidence(content, eval)
    assert isinstance(evidence, Evidence)
    summarise_evidence(evidence)
    assert RulesJudge().decide(Failure(evidence=evidence, packed=pack(evidence))).classification


@pytest.mark.benchmark
@pytest.mark.parametrize("unit", ["`", "` `` ", "`a/b` ", "[a](b) ", "[", "|", "\\|", "*", "<", '"', "<details>", "("])
def test_edited_report_with_repetitive_text_is_read_in_time(unit: str) -> None:
    page = next((Path(__file__).parents[2] / "reports" / "example").rglob("smp7q2ka_*.md"))
    text, data = page.read_text("utf-8"), page.with_suffix(".json").read_text("utf-8")
    lines = text.splitlines()
    with cpu_below(LIMIT_S):
        for number in range(0, len(lines), 7):
            edited = "\n".join([*lines[:number], lines[number] + repeated(unit, 50_000), *lines[number + 1 :]])
            with suppress(UnreadableReport):
                read_page(PageSource(name=page.name, text=edited, data=data))
