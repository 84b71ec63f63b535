"""Verdicts that are read from an existing report."""

from typing import Any

from evalscribe.analysis.write import NOT_IN_REPORT, current_verdicts
from evalscribe.model.finding import REPLAY_JUDGE, Recommendation
from evalscribe.model.report import JudgeLabel, Report, ReportEntry, RunHeader, Snippet
from support.web_reports import entry

MODEL = JudgeLabel(id="anthropic/m", classification="MODEL_FAULT", confidence=0.8, stage="judge", cost_usd=0.5)
PROOF: dict[str, Any] = {
    "cause": "reference-answer-fails-too",
    "cause_kind": "harness",
    "judge": JudgeLabel(id=REPLAY_JUDGE, classification="OVERLY_STRICT", confidence=1.0),
    "basis": "proved",
    "why": "the reference answer fails in the same way",
    "error": "Error: wants 5, got 4",
    "reasoning": "The reference answer fails its own check.",
    "snippets": (Snippet(role="log", path="replay-reference-1.log", first=1, text="Error", status="verified"),),
}


def report(*entries: ReportEntry) -> Report:
    failed = len(entries)
    header = RunHeader(
        id="run1", provider="p", model="m", experiment="e", passed=1, failed=failed, total=failed + 1, listed=failed
    )
    change = Recommendation(text="correct the grader", group="eval", evals=("a/b",), id="R1", would_pass=True)
    return Report(run=header, date="2026-11-01", judges=("rules@1",), entries=entries, recommendations=(change,))


def test_contradicted_verdict_has_nothing_of_the_proof() -> None:
    verdict = current_verdicts(report(entry("a/b", "OVERLY_STRICT", contradicted=MODEL, **PROOF)))["a/b"]
    assert (verdict.judge, verdict.classification, verdict.confidence) == ("anthropic/m", "MODEL_FAULT", 0.8)
    assert (verdict.cause, verdict.cause_kind, verdict.uncertain) == ("", "model", False)
    assert (verdict.why, verdict.reasoning, verdict.citations) == ("", NOT_IN_REPORT, ())
    assert (verdict.fix, verdict.would_pass) == (None, False)
    assert (verdict.stage, verdict.usage.cost_usd) == ("judge", 0.5)
    assert verdict.error == "Error: wants 5, got 4", "the error is a fact of the failure"


def test_contradicted_verdict_with_low_confidence_is_uncertain() -> None:
    unsure = MODEL.model_copy(update={"confidence": 0.5})
    verdict = current_verdicts(report(entry("a/b", "OVERLY_STRICT", contradicted=unsure, **PROOF)))["a/b"]
    assert verdict.uncertain


def test_proved_verdict_keeps_the_reasons_of_the_proof() -> None:
    verdict = current_verdicts(report(entry("a/b", "OVERLY_STRICT", **PROOF)))["a/b"]
    assert (verdict.judge, verdict.classification, verdict.confidence) == (REPLAY_JUDGE, "OVERLY_STRICT", 1.0)
    assert (verdict.cause, verdict.reasoning) == (PROOF["cause"], PROOF["reasoning"])
    assert [citation.path for citation in verdict.citations] == ["replay-reference-1.log"]
    assert (verdict.fix, verdict.would_pass) == ("correct the grader", True)
