"""Gate clauses at, above and below their thresholds, and undecidable clauses."""

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
    defaults: dict[str, Any] = {
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
    return RunSummary(**{**defaults, **more})


def decided(run_summary: RunSummary, baselines: dict[str, Baseline] | None = None, **config: Any) -> Gate:
    return decide_gate(GateConfig(**config), run_summary, "sha256:0", baselines or {})


def only(gate: Gate) -> Clause:
    (clause,) = gate.clauses
    return clause


@pytest.mark.parametrize("name", ["passed_threshold", "min_pass_rate"])
@pytest.mark.parametrize(("passed", "verdict"), [(17, "failed"), (18, "passed"), (19, "passed")])
def test_pass_rate_clause_passes_at_or_above_its_threshold(name: str, passed: int, verdict: str) -> None:
    gate = decided(summary(passed, 20), None, **{name: 0.9})
    assert (only(gate).name, only(gate).verdict, gate.passed) == (name, verdict, verdict == "passed")


@pytest.mark.parametrize(("passed", "of", "bound"), [(7, 10, 0.7), (29, 100, 0.29), (1, 3, 1 / 3), (57, 100, 0.57)])
def test_pass_rate_equal_to_its_threshold_passes_despite_rounding(passed: int, of: int, bound: float) -> None:
    assert decided(summary(passed, of), min_pass_rate=bound).passed


def test_gate_without_clauses_requires_every_trial_to_pass() -> None:
    gate = decided(summary(19, 20))
    assert (gate.stated, gate.passed, only(gate).name, only(gate).threshold) == (
        False,
        False,
        "passed_threshold",
        1,
    )
    assert decided(summary(20, 20)).passed


def test_both_pass_rate_clauses_must_hold() -> None:
    gate = decided(summary(18, 20), passed_threshold=0.8, min_pass_rate=0.95)
    assert [clause.verdict for clause in gate.clauses] == ["passed", "failed"]
    assert not gate.passed


@pytest.mark.parametrize(("failed", "verdict"), [(2, "passed"), (3, "failed")])
def test_failed_items_are_limited_by_max_failed_items(failed: int, verdict: str) -> None:
    assert only(decided(summary(20 - failed, 20), max_failed_items=2)).verdict == verdict


def test_lower_bound_clause_compares_the_wilson_interval() -> None:
    """The Wilson interval of 18 of 20 starts at 69.9 %."""
    assert decided(summary(18, 20), min_pass_rate_lower_bound=0.69).passed
    assert not decided(summary(18, 20), min_pass_rate_lower_bound=0.70).passed


@pytest.mark.parametrize(("errors", "broken", "verdict"), [(2, 0, "passed"), (1, 1, "passed"), (2, 1, "failed")])
def test_error_rate_counts_target_errors_and_broken_required_scorers(errors: int, broken: int, verdict: str) -> None:
    counts = TrialCounts(passed=20 - errors - broken, error=errors, unscored=broken)
    run_summary = summary(20 - errors - broken, 20, counts=counts, broken=broken)
    assert only(decided(run_summary, max_error_rate=0.1)).verdict == verdict


def test_abstained_scores_are_no_errors() -> None:
    run_summary = summary(10, 20, counts=TrialCounts(passed=10, unscored=10), broken=0)
    assert decided(run_summary, max_error_rate=0.0).passed


def test_scored_fraction_counts_trials_with_a_verdict() -> None:
    run_summary = summary(10, 20, counts=TrialCounts(passed=10, failed=8, error=1, unscored=1))
    assert decided(run_summary, min_scored_fraction=0.9).passed
    assert not decided(run_summary, min_scored_fraction=0.91).passed


def test_new_failures_against_the_baseline_fail_the_gate() -> None:
    base = {"main": Baseline(run_id="1" * 20, new_failures=("b", "d"))}
    clause = only(decided(summary(18, 20), base, no_new_failures_vs="main"))
    assert (clause.verdict, clause.items, clause.threshold, clause.observed) == ("failed", ("b", "d"), "1" * 20, 2)
    assert decided(summary(20, 20), {"main": Baseline(run_id="1" * 20)}, no_new_failures_vs="main").passed


@pytest.mark.parametrize(("most", "verdict"), [(2, "passed"), (1, "failed")])
def test_regressions_are_limited_by_max_regressions(most: int, verdict: str) -> None:
    base = {"main": Baseline(run_id="1" * 20, new_failures=("b", "d"))}
    assert only(decided(summary(18, 20), base, max_regressions=most, baseline="main")).verdict == verdict


@pytest.mark.parametrize(("passed", "verdict"), [(15, "failed"), (16, "passed")])
def test_pass_rate_threshold_can_be_relative_to_the_baseline(passed: int, verdict: str) -> None:
    base = {"main": Baseline(run_id="1" * 20, new_failures=("b",), pass_rate=0.9)}
    clause = only(decided(summary(passed, 20), base, min_pass_rate="base-10%", baseline="main"))
    assert (clause.verdict, clause.threshold) == (verdict, 0.8)
    assert clause.said.endswith("at least 80.0 % required (base-10%: main has 90.0 %)")


@pytest.mark.parametrize("bound", ["0.8", "base*2", "main", 1.5, -0.1])
def test_invalid_pass_rate_threshold_is_refused(bound: object) -> None:
    with pytest.raises(ValidationError, match="give a number from 0 to 1"):
        GateConfig.model_validate({"min_pass_rate": bound})


def test_max_regressions_falls_back_to_the_new_failures_baseline() -> None:
    base = {"main": Baseline(run_id="1" * 20, new_failures=("b",))}
    gate = decided(summary(18, 20), base, max_regressions=1, no_new_failures_vs="main")
    assert [clause.verdict for clause in gate.clauses] == ["failed", "passed"]


@pytest.mark.parametrize(
    ("config", "message"),
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
def test_undecidable_clause_is_inconclusive_and_fails_the_gate(config: dict[str, Any], message: str) -> None:
    base = {"main": Baseline(why_not="it uses another dataset version")}
    gate = decided(summary(20, 20), base, **config)
    assert (only(gate).verdict, gate.passed) == ("inconclusive", False)
    assert message in only(gate).said


def test_label_clauses_check_balanced_accuracy_and_kappa() -> None:
    run_summary = summary(
        20, 20, labels=LabelSummary(pairs=20, judged=20, balanced_accuracy=0.8, kappa=0.6, kappa_low=0.4)
    )
    assert decided(run_summary, min_balanced_accuracy=0.8, min_kappa=0.6).passed
    assert not decided(run_summary, min_balanced_accuracy=0.81).passed
    assert not decided(run_summary, min_kappa=0.61).passed


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_incomplete_run_never_passes(state: str) -> None:
    gate = decided(summary(20, 20, state=state, reason="out of budget"), min_pass_rate=0.5)
    assert only(gate).verdict == "passed"
    assert not gate.passed
    assert "out of budget" in headline(gate)


def test_headline_states_pass_rate_interval_and_threshold() -> None:
    gate = decided(summary(18, 20), min_pass_rate=0.95)
    assert headline(gate) == "gate failed: pass rate 18/20 = 90.0 % (95 %: 69.9 to 97.2 %), at least 95 % required"


def test_clause_states_the_true_rates_that_pass_in_80_and_20_of_100_runs() -> None:
    """All 20 must pass: a true 98.9 % (0.8 ** (1/20)) does so in 80 of 100 runs, 92.3 % (0.2 ** (1/20)) in 20."""
    clause = only(decided(summary(20, 20), min_pass_rate=1))
    assert clause.luck is not None
    assert "98.9 %" in clause.luck
    assert "92.3 %" in clause.luck


def test_headline_lists_every_failed_clause() -> None:
    gate = decided(summary(10, 20), passed_threshold=0.2, min_pass_rate=0.9, max_failed_items=1)
    assert headline(gate).endswith("at least 90 % required; 10 failed items of 20, at most 1 allowed")


@pytest.mark.parametrize(("of", "bound"), [(5, 0.7), (20, 0.9), (30, 0.5), (50, 0.95)])
def test_stated_true_rates_match_enumeration_of_all_runs(of: int, bound: float) -> None:
    """Add up the probabilities of all runs that the gate passes, for a given true rate."""
    passing = [passed for passed in range(of + 1) if decided(summary(passed, of), min_pass_rate=bound).passed]
    luck = only(decided(summary(of, of), min_pass_rate=bound)).luck
    assert luck is not None
    enough, few = (float(share) / 100 for share in findall(r"([\d.]+) %", luck))

    def often(rate: float) -> float:
        return sum(comb(of, passed) * rate**passed * (1 - rate) ** (of - passed) for passed in passing)

    rounding = 0.0006  # the rates are shown rounded to a tenth of a point
    assert often(enough - rounding) < 0.8 <= often(enough + rounding)
    assert often(few - rounding) <= 0.2 < often(few + rounding)
