"""Outcome of an action, derived from later runs."""

from typing import Any

import pytest

from evalscribe.evidence.same_failure import FailureDescription
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.finding import FollowUpOutcome
from evalscribe.reports.history import LaterRun, action_outcome, combine_outcomes, few_incomplete, without_date

THEN = FailureDescription("tests", "OVERLY_STRICT", "wrong-port", "ConnectionRefusedError: no")
SAME = LaterRun("2026-01-05", THEN)
OTHER = FailureDescription("tests", "MODEL_FAULT", "off-by-one", "AssertionError: left is not right")


def make_fingerprint(**fields: Any) -> FailureFingerprint:
    identity: dict[str, Any] = {
        "run": "r",
        "provider": "p",
        "model": "m",
        "experiment": "x",
        "eval": "a/1",
        "eval_id": "e",
    }
    facts = {"signature": "tests: boom", "task": "t", "grader": "g", "method": 1}
    return FailureFingerprint(**identity | facts | fields)


@pytest.mark.parametrize(
    ("now", "expected"),
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
def test_outcome_depends_on_the_failure_in_the_later_run(now: LaterRun, expected: FollowUpOutcome) -> None:
    assert action_outcome("fixed the port", THEN, None, now) == expected


def test_run_before_the_action_gives_no_outcome() -> None:
    assert action_outcome("2026-01-06: fixed it", THEN, None, SAME) == "not yet seen"
    assert action_outcome("2026-01-05: fixed it", THEN, None, SAME) == "did not hold"
    assert without_date("2026-01-06: fixed it") == "fixed it"


@pytest.mark.parametrize(
    ("action", "changed", "expected"),
    [
        ("reworded the task", {}, "not yet seen"),
        ("retry added to `suite/a/test_grader.py`", {}, "not yet seen"),
        ("say it in TASK.txt", {}, "not yet seen"),
        ("reworded the task", {"task": "t2"}, "did not hold"),
        ("make `X1` a warning: `lint.toml`", {}, "did not hold"),
        ("make `X1` a warning (c/001-task_1)", {}, "did not hold"),
    ],
)
def test_run_with_the_old_task_and_grader_has_not_seen_a_change_of_them(
    action: str, changed: dict[str, str], expected: FollowUpOutcome
) -> None:
    now = SAME._replace(fingerprint=make_fingerprint(**changed))
    assert action_outcome(action, THEN, make_fingerprint(), now) == expected


def test_equal_signatures_are_the_same_failure_whatever_the_labels() -> None:
    now = LaterRun("2026-01-05", OTHER, judged=False, fingerprint=make_fingerprint(run="r2"))
    assert action_outcome("fixed it", THEN, make_fingerprint(), now) == "did not hold"


def test_run_that_ended_before_any_step_gives_no_outcome_for_a_step() -> None:
    """Reports by people name no cause, so the label alone would make both the same failure."""
    then = FailureDescription("lint", "KNOWN_GAP", None, None)
    ended = FailureDescription(None, "KNOWN_GAP", "no-endpoint", "no endpoints found", "infrastructure")
    unreached = make_fingerprint(step=None, judged=False)
    assert action_outcome("made `X1` a warning", then, None, LaterRun("2026-01-05", ended)) == "not yet seen"
    assert action_outcome(
        "made `X1` a warning", then, make_fingerprint(), LaterRun("2026-01-05", ended, fingerprint=unreached)
    ) == ("not yet seen")
    assert (
        action_outcome("another endpoint", ended, unreached, LaterRun("2026-01-05", ended, fingerprint=unreached))
        == "did not hold"
    )


def test_fix_held_if_its_step_passes_although_another_step_fails() -> None:
    then = FailureDescription("lint", "OVERLY_STRICT", None, None)
    now = LaterRun(
        "2026-01-05", OTHER, fingerprint=make_fingerprint(step="tests", passed=("lint",), signature="tests: bang")
    )
    assert action_outcome("made `X1` a warning", then, make_fingerprint(step="lint"), now) == "held"
    assert action_outcome("fixed it", THEN._replace(cause="off-by-one"), None, now) == "did not hold"


def test_fix_did_not_hold_if_one_of_several_later_runs_fails_again() -> None:
    assert combine_outcomes(()) == "not yet seen"
    assert combine_outcomes(("not yet seen", "held")) == "held"
    assert combine_outcomes(("held", "did not hold", "not yet seen")) == "did not hold"


@pytest.mark.parametrize(
    ("total", "incomplete", "few"), [(66, 1, True), (24, 1, True), (10, 5, False), (None, 1, False), (None, None, True)]
)
def test_incomplete_evals_are_few_or_many_by_their_share_of_the_total(
    total: int | None, incomplete: int | None, few: bool
) -> None:
    assert few_incomplete(total, incomplete) is few
