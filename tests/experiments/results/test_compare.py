"""Comparison of two runs: comparability, changes and the five verdicts."""

import pytest

from evalscribe.experiments.compare import (
    ScoredTrial,
    ScorerOutcome,
    _differing_scorers,
    compare_experiment_runs,
    item_change,
    new_failures,
)
from evalscribe.model.experiment import RunItem
from support.compared_experiments import binding, make_values


def outcomes(passed: int = 0, failed: int = 0, **more: str) -> dict[str, str]:
    """Return single-trial outcomes by item; the first `passed` items pass and the next `failed` items fail."""
    letters = "p" * passed + "f" * failed
    return {f"i{number:02}": letter for number, letter in enumerate(letters)} | more


def test_significant_drop_is_regressed_and_lists_its_items() -> None:
    comparison = compare_experiment_runs(make_values(outcomes(20)), make_values(outcomes(12, 8), of="candidate"))
    assert comparison.verdict == "regressed"
    assert comparison.summary == (
        "Regressed: the pass rate fell from 100.0 % to 60.0 % "
        "(-40.0 points, 95 %: -65.8 to -14.2, p 0.0078) over 20 items."
    )
    assert [one.item for one in comparison.regressed] == [f"i{number}" for number in range(12, 20)]
    assert comparison.fixed == comparison.flaky == ()
    assert comparison.passes is not None
    assert comparison.passes.p == pytest.approx(2 / 2**8)


def test_significant_rise_is_improved() -> None:
    comparison = compare_experiment_runs(make_values(outcomes(12, 8)), make_values(outcomes(20), of="candidate"))
    assert comparison.verdict == "improved"
    assert len(comparison.fixed) == 8


@pytest.mark.parametrize("flips", range(1, 6))
def test_one_to_five_flips_in_one_direction_are_inconclusive(flips: int) -> None:
    comparison = compare_experiment_runs(
        make_values(outcomes(50)), make_values(outcomes(50 - flips, flips), of="candidate")
    )
    assert comparison.verdict == "inconclusive"
    assert "fewer than 6 are never significant" in comparison.summary
    assert len(comparison.regressed) == flips


def test_six_flips_in_one_direction_are_significant() -> None:
    assert (
        compare_experiment_runs(make_values(outcomes(50)), make_values(outcomes(44, 6), of="candidate")).verdict
        == "regressed"
    )


def test_flips_in_both_directions_report_the_minimum_detectable_effect() -> None:
    comparison = compare_experiment_runs(
        make_values(outcomes(50, 3)), make_values(outcomes(47, 3, i50="p", i51="p", i52="f"), of="candidate")
    )
    assert comparison.verdict == "no-detectable-change"
    assert comparison.passes is not None
    assert comparison.passes.detectable is not None
    assert f"{comparison.passes.detectable * 100:.1f} points would have been detected" in comparison.summary


def test_five_items_are_inconclusive() -> None:
    comparison = compare_experiment_runs(make_values(outcomes(5)), make_values(outcomes(0, 5), of="candidate"))
    assert comparison.verdict == "inconclusive"
    assert "too few items" in comparison.summary


def test_different_items_or_scorers_are_not_comparable() -> None:
    base = make_values({"a": "p", "b": "p"}, items={"a": 1, "b": 2}, bindings=[binding(), binding("limits")])
    candidate = make_values(
        {"b": "f", "c": "f"}, of="candidate", dataset="dsv-2", items={"b": 3, "c": 4}, bindings=[binding(version=2)]
    )
    comparison = compare_experiment_runs(base, candidate)
    assert comparison.verdict == "not-comparable"
    assert comparison.mismatches[1:4] == (
        "1 item is only in the base: a",
        "1 item is only in the candidate: c",
        "1 item differs: b",
    )
    assert comparison.mismatches[4].startswith("scorer contains differs: version scv-")
    assert comparison.mismatches[5] == "scorer limits is only in the base"
    assert comparison.passes is None
    assert (comparison.base.rate, comparison.scorers, comparison.regressed) == (None, (), ())


def test_scorer_required_in_one_run_only_is_a_mismatch() -> None:
    comparison = compare_experiment_runs(
        make_values({"a": "p"}), make_values({"a": "p"}, of="candidate", bindings=[binding(required=False)])
    )
    assert comparison.mismatches == ("scorer contains differs: required in the base only",)


def test_allowed_mismatch_compares_only_shared_items_and_scorers() -> None:
    """Verdicts are recomputed from the shared scorers: `limits`, only in the base, failed every item."""
    keys = [f"i{number}" for number in range(10)]
    values = {"contains": {key: [1.0] for key in keys}, "limits": {key: [0.0] for key in keys}}
    base = make_values(dict.fromkeys(keys, "f"), bindings=[binding(), binding("limits")], values=values)
    candidate = make_values(
        dict.fromkeys([*keys[:9], "new"], "p"),
        of="candidate",
        dataset="dsv-2",
        items=dict.fromkeys([*keys[:9], "new"], "asked"),
    )
    comparison = compare_experiment_runs(base, candidate, allow_mismatch=True)
    assert (comparison.items, comparison.base.passed, comparison.candidate.passed) == (9, 9, 9)
    assert comparison.verdict == "no-detectable-change"
    assert comparison.notes[0] == (
        "Only items that both runs share are compared: 2 items left out; passing is judged by contains."
    )


def test_runs_without_shared_items_or_scorers_are_never_comparable() -> None:
    candidate = make_values({"b": "p"}, of="candidate", dataset="dsv-2")
    comparison = compare_experiment_runs(make_values({"a": "p"}), candidate, allow_mismatch=True)
    assert comparison.verdict == "not-comparable"
    assert comparison.summary.endswith("They share no items.")
    other = make_values({"a": "p"}, of="candidate", bindings=[binding("limits")])
    comparison = compare_experiment_runs(make_values({"a": "p"}), other, allow_mismatch=True)
    assert comparison.summary.endswith("They share no required scorer.")


def test_errors_are_no_regression_but_are_warned_about() -> None:
    base = make_values(outcomes(40))
    comparison = compare_experiment_runs(
        base, make_values({**outcomes(40), **{f"i{n:02}": "e" for n in range(33, 40)}}, of="candidate")
    )
    assert comparison.verdict == "no-detectable-change"
    assert (comparison.items, comparison.judged, comparison.coverage) == (40, 33, 33 / 40)
    assert comparison.candidate.rate == 33 / 40
    assert comparison.candidate.rate_of_scored == 1
    assert comparison.warnings[0].startswith("Only in the candidate, 7 items gave no answer: i33, i34")
    assert comparison.warnings[1].startswith("If trials without a verdict counted as failures")


def test_low_coverage_is_inconclusive() -> None:
    letters = {**outcomes(12, 18), **{f"i{n:02}": "u" for n in range(23, 30)}}
    comparison = compare_experiment_runs(make_values(outcomes(30)), make_values(letters, of="candidate"))
    assert comparison.verdict == "inconclusive"
    assert "only 76.7 % of the trials" in comparison.summary
    nothing = compare_experiment_runs(
        make_values(outcomes(10)), make_values(dict.fromkeys(outcomes(10), "e"), of="candidate")
    )
    assert nothing.summary == "Inconclusive: no item has a verdict in both runs."
    assert nothing.passes is None


def test_cancelled_run_reports_its_missing_trials() -> None:
    candidate = make_values(outcomes(7), of="candidate", items=dict.fromkeys(outcomes(10), "asked"), state="cancelled")
    comparison = compare_experiment_runs(make_values(outcomes(10)), candidate)
    assert comparison.candidate.missing == 3
    assert comparison.warnings == ("The candidate run was cancelled: trials that it did not run are not compared.",)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ((1, 1), (1, 1), None),
        ((1, 1), (0, 1), "regressed"),
        ((0, 3), (3, 3), "fixed"),
        ((5, 5), (4, 5), "flaky"),
        ((3, 5), (3, 5), "flaky"),
        ((5, 5), (1, 5), "regressed"),
        ((1, 10), (8, 10), "fixed"),
        ((5, 5), (0, 1), "regressed"),
    ],
)
def test_item_change_distinguishes_flips_from_flakiness(
    before: tuple[int, int], now: tuple[int, int], expected: str | None
) -> None:
    assert item_change(*before, *now) == expected


def test_repetitions_of_an_item_are_one_observation() -> None:
    """Four items that failed in all five trials are four flips, not twenty."""
    base = {f"i{n}": "ppppp" for n in range(10)}
    comparison = compare_experiment_runs(
        make_values(base, repetitions=5),
        make_values(base | {f"i{n}": "fffff" for n in range(4)}, of="b", repetitions=5),
    )
    assert comparison.verdict == "inconclusive"
    assert comparison.passes is not None
    assert comparison.passes.p == 0.125


def test_pass_at_k_and_pass_hat_k_are_compared_for_each_k() -> None:
    comparison = compare_experiment_runs(
        make_values({"a": "pf", "b": "pp"}, repetitions=2), make_values({"a": "pp", "b": "pf"}, of="b", repetitions=2)
    )
    one, two = comparison.several
    assert (one.any, one.every) == ((0.75, 0.75), (0.75, 0.75))
    assert (two.any, two.every) == ((1.0, 1.0), (0.5, 0.5))
    assert [item.item for item in comparison.flaky] == ["a", "b"]


def test_clusters_are_the_unit_of_observation() -> None:
    base, now = outcomes(40), outcomes(30, 10)
    clusters = {key: key[1] for key in base}
    comparison = compare_experiment_runs(
        make_values(base, clusters=clusters), make_values(now, of="b", clusters=clusters)
    )
    assert comparison.clusters == 4
    assert comparison.verdict == "inconclusive"
    assert "too few clusters" in comparison.summary


def test_scorer_p_values_are_corrected_and_graded_scorers_compared_by_mean() -> None:
    keys = [f"i{n:02}" for n in range(12)]
    bindings = [binding(), binding("levenshtein", required=False)]

    def make_run(of: str, value: float) -> object:
        return make_values(
            dict.fromkeys(keys, "p"),
            of=of,
            bindings=bindings,
            values={
                "contains": {key: [1.0] for key in keys},
                "levenshtein": {key: [value + 0.01 * n] for n, key in enumerate(keys)},
            },
        )

    comparison = compare_experiment_runs(make_run("base", 0.8), make_run("b", 0.6))  # type: ignore[arg-type]
    contains, levenshtein = comparison.scorers
    assert (contains.kind, contains.base, contains.effect.p) == ("passed", 1.0, 1.0)
    assert levenshtein.kind == "graded"
    assert levenshtein.effect.difference == pytest.approx(-0.2)
    assert levenshtein.effect.p == pytest.approx(2 * 2 / 2**12)
    assert levenshtein.fell == 12
    assert comparison.warnings == ("Scorer levenshtein fell from 0.855 to 0.655 (p 0.00098, corrected for 2 scorers).",)


def test_broken_score_is_counted_and_excluded_from_the_mean() -> None:
    values = {"contains": {"a": [None], "b": [1.0]}}
    comparison = compare_experiment_runs(
        make_values({"a": "p", "b": "p"}), make_values({"a": "u", "b": "p"}, of="b", values=values)
    )
    assert (comparison.scorers[0].candidate, comparison.scorers[0].broken) == (1.0, (0, 1))


def test_noise_is_measured_only_between_runs_of_one_deployment() -> None:
    comparison = compare_experiment_runs(make_values(outcomes(8, 2)), make_values(outcomes(7, 2, i09="p"), of="b"))
    assert comparison.noise == 0.2
    assert (
        compare_experiment_runs(make_values(outcomes(2)), make_values(outcomes(2), of="b", deployment="dep-2")).noise
        is None
    )


def test_new_failures_are_items_that_no_longer_pass_every_trial() -> None:
    base = items({"a": "pp", "b": "pf", "c": "pp", "d": "pp", "e": "pp", "f": "ff"})
    candidate = items({"a": "pp", "b": "ff", "c": "pf", "d": "ee", "f": "ff"})
    assert new_failures(base, candidate) == ("c", "d", "e")


def items(letters_by_item: dict[str, str]) -> list[RunItem]:
    from support.compared_experiments import LETTERS, NOW

    return [
        RunItem(
            id=f"item-{key}{n}",
            run_id="r",
            item_key=key,
            repetition=n + 1,
            number=0,
            status="ok",
            verdict=LETTERS[letter],
            created_at=NOW,
        )
        for key, letters in letters_by_item.items()
        for n, letter in enumerate(letters)
    ]


def test_scorer_missing_in_the_first_trial_is_still_named() -> None:
    """A trial without an answer has no scores."""
    unscored = ScoredTrial("t1", answered=False, verdict="error", scores={})
    passed = ScoredTrial("t2", answered=True, verdict="passed", scores={"contains": ScorerOutcome("ok", 1.0, True)})
    failed = ScoredTrial("t3", answered=True, verdict="failed", scores={"contains": ScorerOutcome("ok", 0.0, False)})
    assert list(_differing_scorers([unscored, passed], [failed])) == ["contains"]
