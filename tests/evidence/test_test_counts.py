"""What the test runner said: how many passed and which failed."""

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
def test_tests_are_counted(log: str, runner: str, passed: int, failed: int) -> None:
    given = evidence(log, "tests")
    outcome = locate.tests(given)
    assert (outcome.runner, outcome.passed, outcome.failed) == (runner, passed, failed)
    assert len(outcome.failures) == failed
    assert all(quotations.verify_citation(failure.citation, given).status == "verified" for failure in outcome.failures)


@pytest.mark.parametrize(("status", "passed"), [("passed", True), ("failed", False)])
def test_the_recorded_step_outranks_what_the_log_says(status: StepStatus, passed: bool) -> None:
    given = evidence("[cmd] pytest\n...  [100%]\n3 passed in 0.1s\n", "lint")
    given = given.model_copy(update={"steps": (Step(name="tests", status=status),)})
    assert locate.tests(given).all_passed is passed
    assert locate.tests(given).passed == 3


def test_a_log_without_a_runner_has_no_counts() -> None:
    outcome = locate.tests(evidence("5 passed in 0.1s\nTests  5 passed (5)\n", "lint"))
    assert (outcome.runner, outcome.passed, outcome.all_passed) == (None, None, False)
