"""Rules about tests of an agent's work: results of the reference answer decide how certain a verdict is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import Document, Evidence, PackedEvidence
from evalscribe.model.finding import Failure, Verdict
from evalscribe.model.record import Record, evidence_of
from evalscribe.model.reference_runs import (
    GradedAnswer,
    GradedTrial,
    prints_the_same,
    read_reference_runs,
    reference_document,
)
from evalscribe.model.run import Eval, EvalStatus, Step
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records

TRANSCRIPT = "1 user says\n    Count them.\n2 assistant says\n    Done.\n"
OUTPUT = "expected: 32\nactual:   7\nFAIL: wrong count\n"
FAILED = "FAIL: wrong count"


def decide(evidence: Evidence) -> Verdict:
    return RulesJudge().decide(Failure(evidence=evidence, packed=PackedEvidence(excerpts=())))


def reference(passed: int, total: int, *failed_at: str, output: str = OUTPUT) -> GradedAnswer:
    trials = [GradedTrial(name=f"t{n}", output="PASS") for n in range(passed)]
    parts = failed_at or (FAILED,)
    trials += [GradedTrial(name=f"f{n}", failed_at=parts, output=output) for n in range(total - passed)]
    return GradedAnswer(kind="reference answer", source="oracle", trials=tuple(trials), passed=passed, total=total)


def empty(passed: int, output: str = "nothing there") -> GradedAnswer:
    trial = GradedTrial(name="n", failed_at=() if passed else (FAILED,), output=output)
    return GradedAnswer(kind="empty answer", source="nop", trials=(trial,), passed=passed, total=1)


def graded(
    answers: Sequence[GradedAnswer] = (),
    *,
    output: str = OUTPUT,
    steps: Sequence[Step] = (Step(name="tests", status="failed", error=FAILED),),
    status: EvalStatus = "failed",
    reason: str | None = FAILED,
) -> Evidence:
    failed = next((step.name for step in steps if step.status == "failed"), None)
    about = reference_document(answers)
    documents = [
        Document(role="log", path="verifier/test-stdout.txt", text=output),
        Document(role="transcript", path="transcript", text=TRANSCRIPT),
        *((about,) if about else ()),
    ]
    eval = Eval(id="e", category="", name="count", status=status, failed_step=failed, reason=reason)
    return Evidence(eval=eval, steps=tuple(steps), documents=tuple(documents))


def test_graded_answers_survive_a_round_trip_through_their_document() -> None:
    graded_answers = (reference(1, 3, "test_a, b", 'test_"c"'), empty(0, "  indented\n\nlast"))
    document = reference_document(graded_answers)
    assert document is not None
    first, second = read_reference_runs([document])
    assert (first.passed, first.total, first.source) == (1, 3, "oracle")
    assert first.trials[0].failed_at == ("test_a, b", 'test_"c"')
    assert {one.name: bool(one.failed_at) for one in first.trials} == {"f0": True, "f1": True, "t0": False}
    assert prints_the_same(first.trials[0].output, OUTPUT)
    assert prints_the_same(second.trials[0].output, "  indented\n\nlast")
    assert read_reference_runs([Document(role="log", path="other.log", text=document.text)]) == ()


@pytest.mark.parametrize(
    ("output", "other", "same"),
    [
        ("1 failed in 0.02s", "1 failed in 1.5s", True),
        ("actual: 7", "actual: 8", False),
        ("", "", False),
        ("a\n b", "a b\n", True),
    ],
)
def test_outputs_are_compared_without_timings(output: str, other: str, same: bool) -> None:
    assert prints_the_same(output, other) is same


def test_reference_that_always_fails_alike_clears_the_model() -> None:
    verdict = decide(graded([reference(0, 3)]))
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("OVERLY_STRICT", "grader", False)
    assert verdict.would_pass
    assert verdict.why == "the reference answer fails too, in 3 of 3 trials"
    assert {(one.path, one.status) for one in verdict.citations} == {
        ("verifier/test-stdout.txt", "verified"),
        ("reference-runs.log", "verified"),
    }


def test_single_reference_failure_with_other_output_is_uncertain() -> None:
    verdict = decide(graded([reference(0, 1, output="timed out")]))
    assert (verdict.classification, verdict.uncertain, verdict.would_pass) == ("OVERLY_STRICT", True, False)


def test_failed_test_that_the_reference_passes_makes_the_verdict_uncertain() -> None:
    steps = [Step(name=name, status="failed", error="no") for name in ("test_a", "test_b")]
    verdict = decide(graded([reference(0, 3, "test_a")], steps=steps))
    assert (verdict.classification, verdict.uncertain) == ("OVERLY_STRICT", True)
    assert "`test_b`, which the reference passes" in verdict.reasoning


def test_reference_that_passes_sometimes_makes_a_flaky_verifier_only_likely() -> None:
    verdict = decide(graded([reference(1, 3)]))
    assert (verdict.classification, verdict.cause, verdict.uncertain) == ("OVERLY_STRICT", "verifier-is-flaky", True)


def test_flaky_test_does_not_excuse_another_test() -> None:
    steps = [Step(name="test_b", status="failed", error="no")]
    verdict = decide(graded([reference(1, 3, "test_a")], steps=steps))
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", True)


@pytest.mark.parametrize(
    ("answers", "uncertain"),
    [
        ([], True),
        ([reference(1, 1)], True),
        ([reference(3, 3)], False),
        ([reference(3, 3), empty(0)], False),
        ([reference(3, 3), empty(1)], True),
    ],
)
def test_model_fault_is_certain_only_if_the_task_was_checked(answers: list[GradedAnswer], uncertain: bool) -> None:
    verdict = decide(graded(answers))
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", uncertain)


def test_answer_graded_like_an_empty_one_delivers_nothing() -> None:
    verdict = decide(graded([reference(3, 3), empty(0, output=OUTPUT)]))
    assert verdict.cause == "nothing-delivered"
    assert verdict.why.startswith("fails like an empty answer")


@pytest.mark.parametrize(
    ("reason", "label", "kind", "uncertain"),
    [
        ("ApiRateLimitError: 429", "KNOWN_GAP", "infrastructure", False),
        ("SandboxBuildFailedError: no image", "KNOWN_GAP", "infrastructure", False),
        ("RuntimeError: connection reset by peer", "KNOWN_GAP", "infrastructure", False),
        ("RewardFileNotFoundError: none", "OVERLY_STRICT", "grader", True),
        ("test_timeout: the tests ran into their time limit", "OVERLY_STRICT", "grader", True),
        ("NonZeroAgentExitCodeError: 1", "KNOWN_GAP", "harness", True),
        ("ContextWindowExceededError: too long", "MODEL_FAULT", "model", True),
        ("AgentSafetyRefusalError: refused", "MODEL_FAULT", "model", False),
    ],
)
def test_exception_without_a_reward_is_labelled_by_its_origin(
    reason: str, label: str, kind: str, uncertain: bool
) -> None:
    eval = Eval(id="e", category="", name="count", status="error", reason=reason)
    verdict = decide(Evidence(eval=eval))
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == (label, kind, uncertain)


def test_tests_that_do_not_load_are_an_uncertain_grader_fault() -> None:
    error = "../tests/test_outputs.py did not load: TypeError: bad operand type for unary +: 'str'"
    verdict = decide(graded(steps=[Step(name="tests", status="failed", error=error)], reason=error, output="…"))
    assert (verdict.cause, verdict.cause_kind, verdict.uncertain) == ("tests-do-not-load", "grader", True)


@pytest.mark.parametrize("with_tasks", [False, True])
def test_real_harbor_job_is_labelled_as_constructed(real_data: Path, with_tasks: bool) -> None:
    harbor = real_data / "formats" / "harbor"
    overrides: dict[str, Any] = {"tasks": harbor / "tasks"} if with_tasks else {}
    records = open_records(harbor / "jobs" / "model", RunOverrides(**overrides)).read()
    failed = [one for one in records if isinstance(one, Record) and one.eval.status == "failed"]
    verdicts_by_eval = {
        one.eval.path: (verdict.classification, verdict.cause, verdict.uncertain)
        for one in failed
        for verdict in [decide(evidence_of(one))]
    }
    assert verdicts_by_eval == {
        **dict.fromkeys(
            [f"count-errors#{n}" for n in (1, 2, 3)], ("OVERLY_STRICT", "reference-answer-fails-too", False)
        ),
        "dice-script#2": ("OVERLY_STRICT", "verifier-is-flaky", True),
        "region-revenue#1": ("MODEL_FAULT", "fails-test-revenues", False),
        "region-revenue#2": ("MODEL_FAULT", "fails-test-revenues", False),
        "region-revenue#3": ("MODEL_FAULT", "limit-reached", True),
    }
