"""Trial verdicts and binding thresholds."""

import pytest

from evalscribe.experiments.trials import apply_threshold, trial_verdict
from evalscribe.model.experiment import ItemVerdict
from evalscribe.model.score import Binding, ScoreResult, ScorerSpec

PASSED = ScoreResult(value=1.0, passed=True, explanation="equal")
FAILED = ScoreResult(value=0.0, passed=False, explanation="not equal")
BROKEN = ScoreResult(status="error", error_type="scorer_error", explanation="it broke")
ABSTAINED = ScoreResult(status="unscored", explanation="nothing to say")


def binding(name: str, *, required: bool = True, threshold: float | None = None) -> Binding:
    return Binding(spec=ScorerSpec(name=name, scorer="exact_match"), required=required, threshold=threshold)


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        pytest.param({"a": PASSED, "b": PASSED}, "passed", id="every required scorer passed"),
        pytest.param({"a": PASSED, "b": FAILED}, "failed", id="one failed"),
        pytest.param({"a": BROKEN, "b": FAILED}, "failed", id="a failure weighs more than a broken scorer"),
        pytest.param({"a": PASSED, "b": BROKEN}, "unscored", id="a broken scorer is no failure"),
        pytest.param({"a": PASSED, "b": ABSTAINED}, "unscored", id="nor is one that abstains"),
        pytest.param({"a": PASSED}, "unscored", id="a missing score is no pass"),
    ],
)
def test_required_scorers_decide_the_verdict(results: dict[str, ScoreResult], expected: ItemVerdict) -> None:
    assert trial_verdict("ok", results, [binding("a"), binding("b")]) == expected


def test_optional_scorers_do_not_affect_the_verdict() -> None:
    bindings = [binding("a"), binding("b", required=False)]
    assert trial_verdict("ok", {"a": PASSED, "b": FAILED}, bindings) == "passed"
    assert trial_verdict("ok", {"a": PASSED, "b": BROKEN}, bindings) == "passed"


def test_trial_without_an_answer_is_an_error() -> None:
    assert trial_verdict("error", {}, [binding("a", required=False)]) == "error"
    assert trial_verdict("timeout", {"a": PASSED}, [binding("a")]) == "error"


@pytest.mark.parametrize(
    ("value", "threshold", "passes"), [(0.7, 0.7, True), (0.69, 0.7, False), (0.2, None, False), (0.2, 0.1, True)]
)
def test_binding_threshold_overrides_the_scorer_result(value: float, threshold: float | None, passes: bool) -> None:
    score = ScoreResult(value=value, passed=False, explanation="so similar")
    assert apply_threshold(score, binding("a", threshold=threshold)).passed is passes


def test_binding_threshold_leaves_a_broken_score_unchanged() -> None:
    assert apply_threshold(BROKEN, binding("a", threshold=0.5)) == BROKEN
