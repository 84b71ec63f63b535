"""Whether what was done has held, by what a later run says."""

from typing import Any

import pytest

from evalscribe.evidence.same_failure import FailureDescription
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.finding import FollowUpOutcome
from evalscribe.reports.history import LaterRun, action_outcome, combine_outcomes, few_incomplete, without_date

THEN = FailureDescription("tests", "OVERLY_STRICT", "wrong-port", "ConnectionRefusedError: no")
SAME = LaterRun("2026-01-05", THEN)
OTHER = FailureDescription("tests", "MODEL_FAULT", "off-by-one", "AssertionError: left is not right")


def sighting(**fields: Any) -> FailureFingerprint:
    given: dict[str, Any] = {
        "run": "r",
        "provider": "p",
        "model": "m",
        "experiment": "x",
        "eval": "a/1",
        "eval_id": "e",
    }
    known = {"signature": "tests: boom", "task": "t", "grader": "g", "method": 1}
    return FailureFingerprint(**given | known | fields)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        pytest.param(SAME, "did not hold", id="the same cause"),
        pytest.param(LaterRun("2026-01-05", None), "held", id="not among the failures"),
        pytest.param(LaterRun("2026-01-05", None, ran=False), "not yet seen", id="it may not have run"),
        pytest.param(LaterRun("2026-01-05", OTHER), "held", id="another cause at the same step"),
        pytest.param(LaterRun("2026-01-05", OTHER._replace(step="lint")), "not yet seen", id="another step"),
        pytest.param(LaterRun("2026-01-05", OTHER, judged=False), "not yet seen", id="nobody is sure why"),
        pytest.param(
            LaterRun("2026-01-05", FailureDescription("tests", None, None, None), judged=False),
            "not yet seen",
            id="not judged",
        ),
    ],
)
def test_what_a_later_run_says(now: LaterRun, said: FollowUpOutcome) -> None:
    assert action_outcome("fixed the port", THEN, None, now) == said


def test_a_run_from_before_the_action_says_nothing() -> None:
    assert action_outcome("2026-01-06: fixed it", THEN, None, SAME) == "not yet seen"
    assert action_outcome("2026-01-05: fixed it", THEN, None, SAME) == "did not hold"
    assert without_date("2026-01-06: fixed it") == "fixed it"


@pytest.mark.parametrize(
    ("action", "changed", "said"),
    [
        ("reworded the task", {}, "not yet seen"),
        ("retry added to `suite/a/test_grader.py`", {}, "not yet seen"),
        ("say it in TASK.txt", {}, "not yet seen"),
        ("reworded the task", {"task": "t2"}, "did not hold"),
        ("make `X1` a warning: `lint.toml`", {}, "did not hold"),
        ("make `X1` a warning (c/001-task_1)", {}, "did not hold"),
    ],
)
def test_a_run_with_the_old_task_and_grader_has_not_seen_a_change_of_them(
    action: str, changed: dict[str, str], said: FollowUpOutcome
) -> None:
    now = SAME._replace(fingerprint=sighting(**changed))
    assert action_outcome(action, THEN, sighting(), now) == said


def test_equal_signatures_are_the_same_failure_whatever_the_judges_called_it() -> None:
    now = LaterRun("2026-01-05", OTHER, judged=False, fingerprint=sighting(run="r2"))
    assert action_outcome("fixed it", THEN, sighting(), now) == "did not hold"


def test_a_run_that_never_came_to_the_models_work_says_nothing() -> None:
    """People's reports name no cause, so that the label alone would make the two one failure."""
    then = FailureDescription("lint", "KNOWN_GAP", None, None)
    ended = FailureDescription(None, "KNOWN_GAP", "no-endpoint", "no endpoints found", "infrastructure")
    unreached = sighting(step=None, judged=False)
    assert action_outcome("made `X1` a warning", then, None, LaterRun("2026-01-05", ended)) == "not yet seen"
    assert action_outcome(
        "made `X1` a warning", then, sighting(), LaterRun("2026-01-05", ended, fingerprint=unreached)
    ) == ("not yet seen")
    assert (
        action_outcome("another endpoint", ended, unreached, LaterRun("2026-01-05", ended, fingerprint=unreached))
        == "did not hold"
    )


def test_a_step_that_passes_now_is_enough_where_another_one_fails() -> None:
    then = FailureDescription("lint", "OVERLY_STRICT", None, None)
    now = LaterRun("2026-01-05", OTHER, fingerprint=sighting(step="tests", passed=("lint",), signature="tests: bang"))
    assert action_outcome("made `X1` a warning", then, sighting(step="lint"), now) == "held"
    assert action_outcome("fixed it", THEN._replace(cause="off-by-one"), None, now) == "did not hold"


def test_of_several_later_runs_one_that_fails_again_is_enough() -> None:
    assert combine_outcomes(()) == "not yet seen"
    assert combine_outcomes(("not yet seen", "held")) == "held"
    assert combine_outcomes(("held", "did not hold", "not yet seen")) == "did not hold"


@pytest.mark.parametrize(
    ("total", "incomplete", "few"), [(66, 1, True), (24, 1, True), (10, 5, False), (None, 1, False), (None, None, True)]
)
def test_what_never_completed_may_hide_a_failure(total: int | None, incomplete: int | None, few: bool) -> None:
    assert few_incomplete(total, incomplete) is few
