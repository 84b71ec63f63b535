"""Conclusions from replays: which results are proof and which are not."""

from collections.abc import Sequence

import pytest

from evalscribe.judging.pack import case_of
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.finding import CORRECTED, Failure, Proof, Replay, ReplayedAnswer, fixes
from evalscribe.model.reference_runs import GradedAnswer, GradedTrial, reference_document
from evalscribe.model.run import Eval, Step
from evalscribe.replay.conclusions import (
    conclude,
    fails_same_parts,
    fails_the_same,
    failure_signature,
    log_signature,
    recorded_replays,
)

LOG = """\
[cmd] pytest test_grader.py
test_grader.py:8: AssertionError
=========================== short test summary info ============================
FAILED test_grader.py::test_total - AssertionError: assert 3 == 5
1 failed, 2 passed in 0.12s
[error] tests: pytest failed
"""


def failure(log: str = LOG, step: str = "tests", reason: str = "tests failed (66%)") -> Failure:
    evidence = Evidence(
        eval=Eval(id="e1", category="sums", name="001-total", failed_step=step, reason=reason),
        steps=(Step(name=step, status="failed", error=reason),),
        documents=(
            Document(role="task", path="TASK.txt", text="Write total.py.\n"),
            Document(role="output", path="total.py", text="def total(values):\n    return sum(values)\n"),
            Document(role="expected", path="total.py", text="def total(values):\n    return sum(values) + 2\n"),
            Document(role="grader", path="test_grader.py", text="def test_total(): ...\n"),
            Document(role="log", path="run.log", text=log),
        ),
    )
    return case_of(evidence)


ERROR = "assert 3 == 5"


def replays(answer: ReplayedAnswer, results: str, change: str | None = None) -> list[Replay]:
    """Return a replay per letter: `p` passed, `a` failed alike, `o` failed differently, `b` hit the time limit."""
    return [
        Replay(
            answer=answer,
            passed=one == "p",
            alike=one == "a",
            change=change,
            error=None if one == "p" else ERROR,
            log=f"said {ERROR}",
            command="grade",
            exit_code=int(one != "p"),
            broken="stopped at the time limit" if one == "b" else "",
        )
        for one in results
    ]


def proof_from(*replay_groups: Sequence[Replay], same_grader: bool | None = True) -> Proof:
    return conclude(failure(), [one for each in replay_groups for one in each], same_grader=same_grader)


@pytest.mark.parametrize(
    ("reference", "output", "outcome", "basis"),
    [
        ("aaa", "", "reference fails", "proved"),
        ("paa", "", "flaky", "proved"),
        ("ooo", "", "inconclusive", "judged"),
        ("ppo", "", "inconclusive", "judged"),
        ("ppp", "ppp", "not reproducible", "proved"),
        ("ppp", "pap", "flaky", "proved"),
        ("ppp", "aaa", "reproduced", "reproduced"),
        ("ppp", "aao", "inconclusive", "judged"),
        ("ppp", "", "inconclusive", "judged"),
        ("", "aaa", "inconclusive", "judged"),
        ("", "ppp", "not reproducible", "proved"),
        ("bbb", "", "inconclusive", "judged"),
        ("ppp", "bbb", "inconclusive", "judged"),
        ("", "", "inconclusive", "judged"),
    ],
)
def test_outcome_follows_from_reference_and_output_replays(
    reference: str, output: str, outcome: str, basis: str
) -> None:
    proof = proof_from(replays("reference", reference), replays("output", output))
    assert (proof.outcome, proof.basis) == (outcome, basis)
    assert (proof.verdict is not None) == (basis == "proved")
    if proof.verdict:
        assert proof.verdict.classification == "OVERLY_STRICT"
        assert proof.verdict.cause_kind == "grader"
        assert not proof.verdict.uncertain
    assert 0 < len(proof.why) <= 90
    assert proof.reasoning.endswith(".")


def test_output_passing_with_a_corrected_expectation_is_proof() -> None:
    change = CORRECTED
    fixed = proof_from(replays("output", "a"), replays("output", "p", change))
    assert (fixed.outcome, fixed.why) == ("fixed by change", f"passes with {change}")
    assert fixed.verdict is not None
    assert fixed.verdict.would_pass
    no_help = proof_from(replays("reference", "p"), replays("output", "a"), replays("output", "a", change))
    assert no_help.outcome == "reproduced"
    proposed = proof_from(replays("reference", "p"), replays("output", "a"), replays("output", "p", "another change"))
    assert proposed.outcome == "reproduced", "that a proposed change helps says nothing about the fault"
    assert fixes(proposed, "another change")
    assert not fixes(proposed, change)


def test_changed_grader_proves_nothing_and_unknown_grader_is_mentioned() -> None:
    assert proof_from(replays("reference", "aaa"), same_grader=False).outcome == "inconclusive"
    unknown = proof_from(replays("reference", "aaa"), same_grader=None)
    assert unknown.outcome == "reference fails"
    assert "may have changed since" in unknown.reasoning


def test_failure_to_reach_a_service_proves_nothing() -> None:
    log = "[cmd] pip install -r requirements.txt\nReadTimeoutError: Read timed out.\n[error] install: pip failed\n"
    case = failure(log, "install", "install failed")
    proof = conclude(case, replays("reference", "aaa"), same_grader=True)
    assert (proof.outcome, proof.why) == ("inconclusive", "needs a service, and a replay has no network")
    assert conclude(case, replays("output", "ppp"), same_grader=True).outcome == "not reproducible"


def test_verdict_quotes_the_deciding_log() -> None:
    proof = proof_from(replays("reference", "paa"))
    assert proof.verdict is not None
    (citation,) = [one for one in proof.verdict.citations if one.path.startswith("replay-")]
    assert (citation.path, citation.text, citation.status) == (
        "replay-reference-2.log",
        "said assert 3 == 5",
        "verified",
    )


def test_log_line_is_quoted_when_it_writes_the_test_name_differently() -> None:
    stored = failure()
    error = "test_total: AssertionError: assert 3 == 5"
    failed = Replay(answer="reference", passed=False, alike=True, error=error, log=LOG)
    proof = conclude(stored, [failed, failed], same_grader=True)
    assert proof.verdict
    (citation,) = [one for one in proof.verdict.citations if one.path.startswith("replay-")]
    assert citation.text == "FAILED test_grader.py::test_total - AssertionError: assert 3 == 5"


@pytest.mark.parametrize(
    ("replayed", "alike"),
    [
        (LOG, True),
        (LOG.replace("0.12s", "3.40s").replace("assert 3 == 5", "assert 4 == 5"), True),
        (LOG.replace("test_total", "test_mean"), False),
        (LOG.replace("AssertionError: assert 3 == 5", "NameError: name 'total' is not defined"), False),
        ("", False),
    ],
    ids=["same", "other values and times", "another test", "another error", "nothing"],
)
def test_replay_fails_alike_only_with_the_same_test_and_error(replayed: str, alike: bool) -> None:
    evidence = failure().evidence
    assert fails_the_same(failure_signature(evidence), log_signature(evidence, replayed)) is alike


def test_output_failing_more_tests_than_the_reference_is_not_alike() -> None:
    both = LOG.replace("1 failed", "FAILED test_grader.py::test_mean - AssertionError: assert 1 == 2\n2 failed")
    evidence = failure(both).evidence
    assert not fails_the_same(failure_signature(evidence), log_signature(evidence, LOG))
    assert fails_the_same(failure_signature(evidence), log_signature(evidence, both))


def test_linter_errors_are_alike_if_the_rule_is_the_same() -> None:
    log = "[cmd] ruff check total.py\ntotal.py:1:7: ANN401 Dynamically typed `values`\n[error] lint: ruff failed\n"
    evidence = failure(log, "lint", "lint failed").evidence
    elsewhere = log.replace("1:7", "9:2").replace("`values`", "`other`")
    assert fails_the_same(failure_signature(evidence), log_signature(evidence, elsewhere))
    assert not fails_the_same(failure_signature(evidence), log_signature(evidence, log.replace("ANN401", "E501")))


def test_logs_without_errors_are_compared_as_a_whole() -> None:
    log = "[cmd] pytest test_grader.py\n[error] tests: pytest failed\n"
    evidence = failure(log, reason="tests failed (0%)").evidence
    assert fails_the_same(failure_signature(evidence), log_signature(evidence, log))
    assert not fails_the_same(
        failure_signature(evidence), log_signature(evidence, log.replace("pytest failed", "pytest failed, 9"))
    )


@pytest.mark.parametrize(
    "message", ["FAILED sum: expected 6, got 5", "not ok 1 - sum", "sum is wrong: 5", "FAIL: the sum is 5, wanted 6"]
)
def test_custom_grader_messages_are_compared(message: str) -> None:
    recorded = failure(f"{message}\n", reason=message).evidence
    assert fails_the_same(failure_signature(recorded), log_signature(recorded, f"{message}\n"))
    assert not fails_the_same(
        failure_signature(recorded), log_signature(recorded, "cannot open the file of the answer\n")
    )
    without_log = recorded.model_copy(
        update={"documents": tuple(one for one in recorded.documents if one.role != "log")}
    )
    assert fails_the_same(failure_signature(without_log), log_signature(without_log, f"started\n{message}\n"))
    assert not fails_the_same(failure_signature(without_log), log_signature(without_log, "started\n"))


def test_recorded_reference_trials_count_as_replays() -> None:
    trials = (GradedTrial(name="t1", failed_at=("tests failed (66%)",), output=LOG), GradedTrial(name="t2"))
    answer = GradedAnswer(kind="reference answer", source="oracle, job 1", trials=trials, passed=1, total=2)
    document = reference_document([answer])
    assert document is not None
    case = failure()
    evidence = case.evidence.model_copy(update={"documents": (*case.evidence.documents, document)})
    recorded = recorded_replays(evidence)
    assert [(one.passed, one.alike, one.recorded) for one in recorded] == [(False, True, True), (True, False, True)]
    proof = conclude(case_of(evidence), recorded, same_grader=True)
    assert (proof.outcome, proof.replays) == ("flaky", recorded)


def test_failed_steps_are_alike_if_all_of_them_fail_again() -> None:
    def stored(*steps: str) -> Evidence:
        evidence = failure("FAIL: 3\n").evidence
        return evidence.model_copy(update={"steps": tuple(Step(name=name, status="failed") for name in steps)})

    assert fails_same_parts(stored("a"), ["a", "b"], "")
    assert not fails_same_parts(stored("a", "b"), ["a"], "")
    assert fails_same_parts(stored("a"), ["b"], "FAIL: 3")
    assert fails_same_parts(stored("a", "limit"), ["a"], ""), "that the agent ran out of time is no check"
    assert not fails_same_parts(stored(), ["a"], "")


@pytest.mark.parametrize(
    ("recorded", "replayed", "outcome"),
    [
        ("ppp", "aaa", "inconclusive"),
        ("aaa", "ppp", "inconclusive"),
        ("paa", "ppp", "flaky"),
        ("ppp", "paa", "flaky"),
        ("p", "aaa", "flaky"),
        ("aaa", "aaa", "reference fails"),
    ],
)
def test_replays_that_contradict_all_recorded_trials_prove_nothing(recorded: str, replayed: str, outcome: str) -> None:
    before = [one.model_copy(update={"recorded": True}) for one in replays("reference", recorded)]
    assert proof_from(before, replays("reference", replayed)).outcome == outcome
