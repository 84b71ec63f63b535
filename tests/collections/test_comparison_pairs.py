"""Pairs of evals: how each changed, which are left out and why, and the statistics over the rest."""

from dataclasses import replace

import pytest

from evalscribe.collections.compare import build_matrix, compare_sides
from evalscribe.collections.regressions import shared_behaviours
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.comparison import Comparison
from evalscribe.model.record import GradedEval
from evalscribe.model.run import Eval
from support.compared_runs import make_run, make_run_of_failures


def changes(comparison: Comparison) -> dict[str, str]:
    return {pair.eval: pair.change for pair in comparison.pairs}


def left_out(comparison: Comparison) -> dict[str, tuple[str, str]]:
    return {one.eval: (one.reason, one.detail) for one in comparison.apart}


def test_pairs_are_classified_by_how_their_outcome_changed() -> None:
    base = make_run("a", {"x/1": "p", "x/2": "f", "x/3": "p", "x/4": "f", "y/5": "pf", "y/6": "pp"})
    candidate = make_run("b", {"x/1": "f", "x/2": "p", "x/3": "p", "x/4": "f", "y/5": "fp", "y/6": "pf"})
    comparison = compare_sides([base], [candidate])
    assert changes(comparison) == {
        "x/1": "regressed",
        "x/2": "fixed",
        "x/3": "both-passed",
        "x/4": "both-failed",
        "y/5": "unsteady",
        "y/6": "regressed",
    }
    assert (comparison.base.passed, comparison.base.trials) == (5, 8)
    assert comparison.passes.difference == pytest.approx(-0.5 / 6)
    assert comparison.passes.tasks == 6


def test_evals_of_only_one_side_are_left_out() -> None:
    comparison = compare_sides([make_run("a", {"x/1": "p", "x/2": "p"})], [make_run("b", {"x/2": "p", "x/3": "f"})])
    assert left_out(comparison) == {
        "x/1": ("only-base", "only the base has it"),
        "x/3": ("only-candidate", "only the candidate has it"),
    }
    assert comparison.evals == 1


def test_infrastructure_and_grader_failures_are_not_regressions() -> None:
    finding = FindingSummary(eval="x/3", cause="no-endpoint", cause_kind="infrastructure")
    proved = FindingSummary(eval="x/6", cause_kind="grader", basis="proved", why="the grader is flaky")
    candidate = make_run(
        "b",
        {"x/1": "e", "x/2": "i", "x/3": "f", "x/4": "f", "x/5": "ef", "x/6": "f"},
        findings={"x/3": finding, "x/6": proved},
        unreached=frozenset({"b-x/4-1"}),
    )
    comparison = compare_sides(
        [make_run("a", dict.fromkeys(("x/1", "x/2", "x/3", "x/4", "x/5", "x/6"), "p"))], [candidate]
    )
    assert {eval: detail for eval, (_, detail) in left_out(comparison).items()} == {
        "x/1": "base passed; candidate: the harness broke: 1 is wrong",
        "x/2": "base passed; candidate: it never completed: 2 is wrong",
        "x/3": "base passed; candidate: its report blames the infrastructure (no endpoint)",
        "x/4": "base passed; candidate: the model's work was never reached: 4 is wrong",
        "x/6": "base passed; candidate: a replay proved that the model is not at fault (the grader is flaky)",
    }
    assert changes(comparison) == {"x/5": "regressed"}, "the try that was judged counts"


def test_uncertain_outage_counts_against_the_model() -> None:
    """The model's own code can have printed what looks like an outage."""
    finding = FindingSummary(eval="x/1", cause="no-endpoint", cause_kind="infrastructure", uncertain=True)
    candidate = make_run("b", {"x/1": "f"}, findings={"x/1": finding})
    comparison = compare_sides([make_run("a", {"x/1": "p"})], [candidate])
    assert left_out(comparison) == {}
    assert changes(comparison) == {"x/1": "regressed"}


def test_target_without_an_answer_is_left_out_with_its_reason() -> None:
    broke = Eval(id="b-x/1-1", category="x", name="1", status="error", failed_step="target", reason="ValueError: no")
    candidate = make_run("b", {"x/1": "e", "x/2": "p"})
    candidate = replace(candidate, graded=(GradedEval(run_id="b", eval=broke), *candidate.graded[1:]))
    comparison = compare_sides([make_run("a", {"x/1": "p", "x/2": "p"})], [candidate])
    assert left_out(comparison)["x/1"][1] == "base passed; candidate: the target gave no answer: ValueError: no"
    assert len(comparison.pairs[0].candidate) == 1


def test_model_cause_in_the_report_overrides_the_unreached_guess() -> None:
    finding = FindingSummary(eval="x/1", cause="wrong-import", cause_kind="model")
    candidate = make_run("b", {"x/1": "f"}, findings={"x/1": finding}, unreached=frozenset({"b-x/1-1"}))
    assert changes(compare_sides([make_run("a", {"x/1": "p"})], [candidate])) == {"x/1": "regressed"}


def test_evals_with_a_changed_task_or_grader_are_left_out() -> None:
    base = make_run("a", {"x/1": "p", "x/2": "p", "x/3": "p"}, graded={"x/1": {"task": "t1"}, "x/2": {"grader": "g1"}})
    graded = {"x/1": {"task": "t2", "grader": "g1"}, "x/2": {"grader": "g2"}, "x/3": {"task": "t3"}}
    comparison = compare_sides([base], [make_run("b", {"x/1": "f", "x/2": "f", "x/3": "f"}, graded=graded)])
    assert left_out(comparison) == {
        "x/1": ("changed", "its task changed in between"),
        "x/2": ("changed", "its grader changed in between"),
    }
    assert changes(comparison) == {"x/3": "regressed"}, "what is not known does not differ"


def test_evals_unnamed_by_a_failures_only_source_count_as_passed() -> None:
    comparison = compare_sides(
        [make_run_of_failures("a", ["x/1", "x/2"], 8)], [make_run_of_failures("b", ["x/2", "x/3"], 7, incomplete=1)]
    )
    assert changes(comparison) == {"x/1": "fixed", "x/2": "both-failed", "x/3": "regressed"}
    assert comparison.unnamed == 6
    assert comparison.passes.tasks == 9
    assert any("never completed" in note for note in comparison.notes)
    alone = build_matrix([[make_run_of_failures("a", ["x/1", "x/2"], 8)], [make_run_of_failures("b", ["x/2"], 9)]])
    assert [(one.passed, one.trials) for one in alone.columns] == [(8, 10), (9, 10)]


def test_failures_only_run_is_compared_with_a_complete_run() -> None:
    comparison = compare_sides(
        [make_run_of_failures("a", ["x/1"], 2)], [make_run("b", {"x/1": "p", "x/2": "f", "x/3": "p"})]
    )
    assert changes(comparison) == {"x/1": "fixed", "x/2": "regressed", "x/3": "both-passed"}
    assert comparison.unnamed == 0


def test_unnamed_evals_of_another_suite_are_not_counted_as_passed() -> None:
    """A run that names only failures is compared with a run that has none of these evals."""
    other = make_run("b", {"y/1": "f", "y/2": "p"}, experiment="y")
    comparison = compare_sides([make_run_of_failures("a", ["x/1"], 4)], [other])
    assert changes(comparison) == {}
    assert {reason for reason, _ in left_out(comparison).values()} == {"only-base", "only-candidate"}
    assert build_matrix([[make_run_of_failures("a", ["x/1"], 4)], [other]]).columns[0].trials == 1
    kin = make_run("b", {"x/1": "f", "x/2": "f"}, experiment="y")
    assert changes(compare_sides([make_run_of_failures("a", ["x/1"], 4)], [kin])) == {
        "x/1": "both-failed",
        "x/2": "regressed",
    }


def test_runs_of_one_side_are_trials_of_the_same_tasks() -> None:
    base = [make_run("a1", {"x/1": "p"}), make_run("a2", {"x/1": "f"})]
    comparison = compare_sides(base, [make_run("b", {"x/1": "f"}, model="other")])
    assert len(comparison.pairs[0].base) == 2
    assert comparison.base.name == "p/m"
    assert comparison.candidate.name == "p/other"


def test_numeric_scores_are_compared_beside_the_pass_rate() -> None:
    base = make_run(
        "a", {f"x/{n}": "p" for n in range(9)}, graded={f"x/{n}": {"scores": {"f1": 0.9}} for n in range(9)}
    )
    graded = {f"x/{n}": {"scores": {"f1": 0.5, "reward": 1.0}} for n in range(9)}
    comparison = compare_sides([base], [make_run("b", {f"x/{n}": "p" for n in range(9)}, graded=graded)])
    assert [one.name for one in comparison.scores] == ["f1"]
    assert comparison.scores[0].effect.difference == pytest.approx(-0.4)
    assert comparison.scores[0].effect.significant
    assert comparison.passes.p == 1


def test_category_p_values_are_corrected_for_multiple_comparisons() -> None:
    base = make_run("a", {f"c{n}/{m}": "p" for n in range(10) for m in range(6)})
    candidate = make_run("b", {f"c{n}/{m}": "f" if n == 0 else "p" for n in range(10) for m in range(6)})
    comparison = compare_sides([base], [candidate])
    assert comparison.categories[0].regressed == 6
    assert comparison.categories[0].p == pytest.approx(10 * 2 / 64)


def test_regressions_are_grouped_by_cause_else_error_else_step() -> None:
    cause = {f"x/{n}": FindingSummary(eval=f"x/{n}", cause="forgets-await", cause_kind="model") for n in (1, 2)}
    outcomes = {f"x/{n}": "f" for n in range(1, 6)}
    candidate = make_run("b", outcomes, findings=cause, signatures={"b-x/3-1": "tests: boom"})
    comparison = shared_behaviours(compare_sides([make_run("a", dict.fromkeys(outcomes, "p"))], [candidate]).pairs)
    assert [(one.name, one.evals) for one in comparison] == [
        ("fails in tests", ("x/4", "x/5")),
        ("forgets await", ("x/1", "x/2")),
        ("tests: boom", ("x/3",)),
    ]


def test_runs_of_different_experiments_are_compared_with_a_warning() -> None:
    other = make_run("b", {"x/1": "p"})
    moved = other.run.model_copy(update={"experiment": "no_guidelines"})
    comparison = compare_sides([make_run("a", {"x/1": "p"})], [type(other)(moved, other.graded)])
    assert comparison.notes == (
        "The experiments differ (default and no_guidelines): "
        "the change may come from the experiment rather than the model.",
    )


@pytest.mark.parametrize("huge", [1e305, -1e200])
def test_scores_too_large_to_square_are_ignored(huge: float) -> None:
    base = make_run("a", dict.fromkeys(("x/1", "x/2"), "p"), graded={f"x/{n}": {"scores": {"f1": 0.9}} for n in (1, 2)})
    graded = {"x/1": {"scores": {"f1": 0.5}}, "x/2": {"scores": {"f1": huge}}}
    comparison = compare_sides([base], [make_run("b", dict.fromkeys(("x/1", "x/2"), "p"), graded=graded)])
    assert [(one.candidate, one.effect.tasks) for one in comparison.scores] == [(0.5, 1)]
