"""Every clause of a gate at, above and below its bound, and what cannot be decided."""

from math import comb
from re import findall
from typing import Any

import pytest
from pydantic import ValidationError

from evalscribe.experiments.gate import Baseline, decide_gate, headline
from evalscribe.model.experiment import Clause, Gate, GateConfig, LabelSummary, PassRate, RunSummary, TrialCounts
from evalscribe.statistics.intervals import wilson_interval


def summary(passed: int, of: int, **more: Any) -> RunSummary:
    low, high = wilson_interval(passed, of)
    given: dict[str, Any] = {
        "run_id": "0" * 20,
        "experiment_id": "exp-1",
        "experiment": "quality",
        "experiment_version_id": "exv-1",
        "version": 1,
        "dataset_version_id": "dsv-1",
        "state": "completed",
        "created_at": "2026-11-20T10:00:00.000+00:00",
        "items": of,
        "repetitions": 1,
        "tries": of,
        "counts": TrialCounts(passed=passed, failed=of - passed),
        "pass_rate": PassRate(passed=passed, of=of, value=passed / of if of else None, low=low, high=high),
        "failed_items": of - passed,
        "observations": of,
    }
    return RunSummary(**{**given, **more})


def decided(found: RunSummary, baselines: dict[str, Baseline] | None = None, **config: Any) -> Gate:
    return decide_gate(GateConfig(**config), found, "sha256:0", baselines or {})


def only(found: Gate) -> Clause:
    (clause,) = found.clauses
    return clause


@pytest.mark.parametrize("name", ["passed_threshold", "min_pass_rate"])
@pytest.mark.parametrize(("passed", "verdict"), [(17, "failed"), (18, "passed"), (19, "passed")])
def test_the_pass_rate_reaches_its_bound(name: str, passed: int, verdict: str) -> None:
    found = decided(summary(passed, 20), None, **{name: 0.9})
    assert (only(found).name, only(found).verdict, found.passed) == (name, verdict, verdict == "passed")


@pytest.mark.parametrize(("passed", "of", "bound"), [(7, 10, 0.7), (29, 100, 0.29), (1, 3, 1 / 3), (57, 100, 0.57)])
def test_rounding_of_quotients_fails_nobody(passed: int, of: int, bound: float) -> None:
    assert decided(summary(passed, of), min_pass_rate=bound).passed


def test_without_a_clause_everything_has_to_pass() -> None:
    found = decided(summary(19, 20))
    assert (found.stated, found.passed, only(found).name, only(found).threshold) == (
        False,
        False,
        "passed_threshold",
        1,
    )
    assert decided(summary(20, 20)).passed


def test_both_bounds_of_the_pass_rate_hold() -> None:
    found = decided(summary(18, 20), passed_threshold=0.8, min_pass_rate=0.95)
    assert [clause.verdict for clause in found.clauses] == ["passed", "failed"]
    assert not found.passed


@pytest.mark.parametrize(("failed", "verdict"), [(2, "passed"), (3, "failed")])
def test_failed_items(failed: int, verdict: str) -> None:
    assert only(decided(summary(20 - failed, 20), max_failed_items=2)).verdict == verdict


def test_the_lower_end_of_the_interval() -> None:
    """Wilson's of 18 of 20 begins at 69.9 %."""
    assert decided(summary(18, 20), min_pass_rate_lower_bound=0.69).passed
    assert not decided(summary(18, 20), min_pass_rate_lower_bound=0.70).passed


@pytest.mark.parametrize(("errors", "broken", "verdict"), [(2, 0, "passed"), (1, 1, "passed"), (2, 1, "failed")])
def test_errors_of_the_target_and_of_required_scorers_count(errors: int, broken: int, verdict: str) -> None:
    counts = TrialCounts(passed=20 - errors - broken, error=errors, unscored=broken)
    found = summary(20 - errors - broken, 20, counts=counts, broken=broken)
    assert only(decided(found, max_error_rate=0.1)).verdict == verdict


def test_a_scorer_that_abstained_is_no_error() -> None:
    found = summary(10, 20, counts=TrialCounts(passed=10, unscored=10), broken=0)
    assert decided(found, max_error_rate=0.0).passed


def test_the_scored_fraction_counts_verdicts() -> None:
    found = summary(10, 20, counts=TrialCounts(passed=10, failed=8, error=1, unscored=1))
    assert decided(found, min_scored_fraction=0.9).passed
    assert not decided(found, min_scored_fraction=0.91).passed


def test_new_failures_against_a_baseline() -> None:
    base = {"main": Baseline(run_id="1" * 20, new_failures=("b", "d"))}
    clause = only(decided(summary(18, 20), base, no_new_failures_vs="main"))
    assert (clause.verdict, clause.items, clause.threshold, clause.observed) == ("failed", ("b", "d"), "1" * 20, 2)
    assert decided(summary(20, 20), {"main": Baseline(run_id="1" * 20)}, no_new_failures_vs="main").passed


@pytest.mark.parametrize(("most", "verdict"), [(2, "passed"), (1, "failed")])
def test_regressions_are_bounded(most: int, verdict: str) -> None:
    base = {"main": Baseline(run_id="1" * 20, new_failures=("b", "d"))}
    assert only(decided(summary(18, 20), base, max_regressions=most, baseline="main")).verdict == verdict


@pytest.mark.parametrize(("passed", "verdict"), [(15, "failed"), (16, "passed")])
def test_the_pass_rate_may_be_bound_to_that_of_the_baseline(passed: int, verdict: str) -> None:
    base = {"main": Baseline(run_id="1" * 20, new_failures=("b",), pass_rate=0.9)}
    clause = only(decided(summary(passed, 20), base, min_pass_rate="base-10%", baseline="main"))
    assert (clause.verdict, clause.threshold) == (verdict, 0.8)
    assert clause.said.endswith("at least 80.0 % required (base-10%: main has 90.0 %)")


@pytest.mark.parametrize("bound", ["0.8", "base*2", "main", 1.5, -0.1])
def test_a_pass_rate_is_a_share_or_relative_to_the_base(bound: object) -> None:
    with pytest.raises(ValidationError, match="give a number from 0 to 1"):
        GateConfig.model_validate({"min_pass_rate": bound})


def test_regressions_take_the_baseline_of_new_failures() -> None:
    base = {"main": Baseline(run_id="1" * 20, new_failures=("b",))}
    found = decided(summary(18, 20), base, max_regressions=1, no_new_failures_vs="main")
    assert [clause.verdict for clause in found.clauses] == ["failed", "passed"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"no_new_failures_vs": "main"}, "another dataset version"),
        ({"max_regressions": 5, "baseline": "main"}, "another dataset version"),
        ({"max_regressions": 5}, "no baseline is named"),
        ({"min_pass_rate": "base"}, "no baseline is named"),
        ({"min_pass_rate": "base", "baseline": "main"}, "another dataset version"),
        ({"min_kappa": 0.5}, "no trial has both"),
        ({"min_balanced_accuracy": 0.5}, "no trial has both"),
    ],
)
def test_what_cannot_be_decided_is_not_passed(config: dict[str, Any], said: str) -> None:
    base = {"main": Baseline(why_not="it uses another dataset version")}
    found = decided(summary(20, 20), base, **config)
    assert (only(found).verdict, found.passed) == ("inconclusive", False)
    assert said in only(found).said


def test_labels_have_bounds() -> None:
    found = summary(20, 20, labels=LabelSummary(pairs=20, judged=20, balanced_accuracy=0.8, kappa=0.6, kappa_low=0.4))
    assert decided(found, min_balanced_accuracy=0.8, min_kappa=0.6).passed
    assert not decided(found, min_balanced_accuracy=0.81).passed
    assert not decided(found, min_kappa=0.61).passed


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_run_that_was_not_completed_never_passes(state: str) -> None:
    found = decided(summary(20, 20, state=state, reason="out of budget"), min_pass_rate=0.5)
    assert only(found).verdict == "passed"
    assert not found.passed
    assert "out of budget" in headline(found)


def test_the_line_says_what_was_seen_and_how_sure_it_is() -> None:
    found = decided(summary(18, 20), min_pass_rate=0.95)
    assert headline(found) == "gate failed: pass rate 18/20 = 90.0 % (95 %: 69.9 to 97.2 %), at least 95 % required"


def test_beside_the_bound_stands_what_a_run_of_this_size_can_tell() -> None:
    """All of 20: a true 98.9 % passes in 80 of 100 runs, a true 92.3 % in 20 (0.8 and 0.2 to the power of 1/20)."""
    clause = only(decided(summary(20, 20), min_pass_rate=1))
    assert clause.luck is not None
    assert "98.9 %" in clause.luck
    assert "92.3 %" in clause.luck


def test_every_failed_clause_is_named() -> None:
    found = decided(summary(10, 20), passed_threshold=0.2, min_pass_rate=0.9, max_failed_items=1)
    assert headline(found).endswith("at least 90 % required; 10 failed items of 20, at most 1 allowed")


@pytest.mark.parametrize(("of", "bound"), [(5, 0.7), (20, 0.9), (30, 0.5), (50, 0.95)])
def test_the_rate_from_which_8_of_10_runs_pass_is_the_least_one_by_enumeration(of: int, bound: float) -> None:
    """Every run of so many items, weighed by how often a true rate brings it: the gate itself says which pass."""
    passing = [passed for passed in range(of + 1) if decided(summary(passed, of), min_pass_rate=bound).passed]
    luck = only(decided(summary(of, of), min_pass_rate=bound)).luck
    assert luck is not None
    enough, few = (float(share) / 100 for share in findall(r"([\d.]+) %", luck))

    def often(rate: float) -> float:
        return sum(comb(of, passed) * rate**passed * (1 - rate) ** (of - passed) for passed in passing)

    told = 0.0006  # the rates are told to a tenth of a point
    assert often(enough - told) < 0.8 <= often(enough + told)
    assert often(few - told) <= 0.2 < often(few + told)
