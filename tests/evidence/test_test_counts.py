"""Test counts read from the log: how many tests passed and which failed."""

import pytest

from evalscribe.evidence import locate
from evalscribe.judging import quotations
from evalscribe.model.run import Step, StepStatus
from support.tool_output import GO, JEST, PYTEST, UNITTEST, VITEST, evidence


@pytest.mark.parametrize(
    ("log", "runner", "passed", "failed"),
    [
        (VITEST, "vitest", 1, 2),
        (PYTEST, "pytest", 7, 1),
        (JEST, "jest", 2, 1),
        (UNITTEST, "unittest", 1, 1),
        (GO, "go test", 1, 1),
    ],
)
def test_counts_of_each_test_runner_are_read(log: str, runner: str, passed: int, failed: int) -> None:
    log_evidence = evidence(log, "tests")
    outcome = locate.tests(log_evidence)
    assert (outcome.runner, outcome.passed, outcome.failed) == (runner, passed, failed)
    assert len(outcome.failures) == failed
    assert all(
        quotations.verify_citation(failure.citation, log_evidence).status == "verified" for failure in outcome.failures
    )


@pytest.mark.parametrize(("status", "passed"), [("passed", True), ("failed", False)])
def test_recorded_step_overrides_the_log(status: StepStatus, passed: bool) -> None:
    log_evidence = evidence("[cmd] pytest\n...  [100%]\n3 passed in 0.1s\n", "lint")
    log_evidence = log_evidence.model_copy(update={"steps": (Step(name="tests", status=status),)})
    assert locate.tests(log_evidence).all_passed is passed
    assert locate.tests(log_evidence).passed == 3


def test_a_log_without_a_runner_has_no_counts() -> None:
    outcome = locate.tests(evidence("5 passed in 0.1s\nTests  5 passed (5)\n", "lint"))
    assert (outcome.runner, outcome.passed, outcome.all_passed) == (None, None, False)
