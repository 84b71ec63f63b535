"""When failures of several models are the same failure of the same eval."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from evalscribe.evidence.same_failure import (
    FailureDescription,
    OtherRuns,
    compact_failure,
    compare_across_models,
    complete_runs,
    describe_across_models,
    same_failure,
    same_fingerprint,
    same_version,
)
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.finding import CrossModelFailures
from evalscribe.model.run import Eval, Run


def sighting(model: str = "p/m", **fields: Any) -> FailureFingerprint:
    provider, _, name = model.partition("/")
    given: dict[str, Any] = {
        "run": f"run-of-{model}",
        "provider": provider,
        "model": name,
        "experiment": "default",
        "eval": "a/1",
        "eval_id": "e1",
        "step": "tests",
        "signature": "tests: boom",
        "task": "sha256:t1",
        "grader": "sha256:g1",
        "method": 1,
    }
    return FailureFingerprint(**given | fields)


def compare(
    mine: FailureFingerprint, others: Sequence[FailureFingerprint], passed: Mapping[str, str]
) -> CrossModelFailures | None:
    return compare_across_models(compact_failure(mine), [compact_failure(other) for other in others], passed)


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({}, True),
        ({"experiment": "default (with_guidelines)"}, True),
        ({"experiment": "no_guidelines"}, False),
        ({"experiment": ""}, False),
        ({"task": "sha256:t2"}, False),
        ({"grader": "sha256:g2"}, False),
        ({"task": None}, False),
    ],
)
def test_a_version_is_experiment_task_and_grader(fields: dict[str, Any], same: bool) -> None:
    assert same_version(sighting(), sighting("p/n", **fields)) is same
    assert same_version(sighting("p/n", **fields), sighting()) is same


def test_what_is_not_known_equals_nothing_not_even_itself() -> None:
    for fields in ({"task": None}, {"grader": None}, {"experiment": ""}):
        assert not same_version(sighting(**fields), sighting(**fields))
    for fields in ({"signature": None}, {"judged": False}, {"hidden": True}):
        assert not same_fingerprint(sighting(**fields), sighting(**fields))


def test_alike_is_the_same_error_and_where_values_are_hidden_the_same_failed_tests() -> None:
    assert same_fingerprint(sighting(checks="x"), sighting("p/n", checks="y"))
    assert not same_fingerprint(sighting(), sighting("p/n", signature="tests: bang"))
    assert same_fingerprint(sighting(hidden=True, checks="x"), sighting("p/n", hidden=True, checks="x"))
    assert not same_fingerprint(sighting(hidden=True, checks="x"), sighting("p/n", hidden=True, checks="y"))


def test_models_are_counted_once_however_many_runs_and_spellings() -> None:
    others = [
        sighting("q/n-1.5", run="r1"),
        sighting("q/n-1-5", run="r2"),
        sighting("q/n-1-5", run="r3", signature="tests: bang"),
        sighting("p/M", run="r4"),
    ]
    assert compare(sighting(), others, {}) == CrossModelFailures(alike=("q/n-1-5",), models=2)


def test_the_same_model_of_another_provider_is_no_second_one() -> None:
    served = [sighting("openrouter/p/m"), sighting("azure/M")]
    assert compare(sighting(), served, {"r": "azure/m"}) is None
    found = compare(sighting(), [*served, sighting("q/n"), sighting("azure/n")], {"r": "azure/m", "s": "x/o"})
    assert found is not None
    assert (found.failing, found.models) == (2, 3)


def test_who_counts_among_all_models() -> None:
    """The other way to fail counts; another version, what never came to the model, and what hides evals do not."""
    others = [
        sighting("q/alike"),
        sighting("q/otherwise", signature="tests: bang"),
        sighting("q/nothing-said", signature=None),
        sighting("q/not-reached", judged=False),
        sighting("q/older", grader="sha256:g0"),
        sighting("q/older-otherwise", grader="sha256:g0", signature="tests: bang"),
        sighting("q/elsewhere", experiment="other"),
    ]
    passed = {other.run: f"q/{other.model}" for other in others} | {"run-x": "q/clean", "run-of-p/m": "p/m"}
    found = compare(sighting(), others, passed)
    assert found == CrossModelFailures(alike=("q/alike",), models=5, earlier=("q/older",))
    assert found.failing == 2


def test_a_model_that_fails_alike_now_is_not_named_for_an_earlier_version() -> None:
    others = [sighting("q/n", run="r1"), sighting("q/n", run="r2", task="sha256:t0")]
    assert compare(sighting(), others, {}) == CrossModelFailures(alike=("q/n",), models=2)


def test_nothing_is_said_of_a_failure_that_no_other_model_shares() -> None:
    for fields in ({"signature": None}, {"judged": False}):
        assert compare(sighting(**fields), [sighting("q/n", **fields)], {}) is None
    assert compare(sighting(), [sighting("q/n", eval="a/2")], {}) is None
    assert compare(sighting(), [sighting("q/n", signature="tests: bang")], {"r": "q/o"}) is None
    assert compare(sighting(), [], {"r": "q/n"}) is None


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({}, True),
        ({"status": "failed"}, False),
        ({"passed": 1}, False),
        ({"passed": 1, "failed": 2}, False),
    ],
)
def test_only_a_completed_run_that_lists_every_failure_shows_what_passed(fields: dict[str, Any], counts: bool) -> None:
    failure = Eval(id="e", category="a", name="1")
    given: dict[str, Any] = {"id": "r", "provider": "p", "model": "m", "passed": 2, "failed": 1, "total": 3}
    assert [one.model for one in complete_runs(Run(**given | {"failures": (failure,)} | fields))] == ["p/m"] * counts


def test_an_eval_of_which_every_trial_passed_has_passed() -> None:
    run = Run(id="r", provider="q", model="n", passed=3, total=3, evals=("a/1#1", "a/1#2", "b/c#x"))
    elsewhere = OtherRuns({"a/1": [compact_failure(sighting("q/o"))]}, tuple(complete_runs(run)))
    assert elsewhere.across(compact_failure(sighting())) == CrossModelFailures(alike=("q/o",), models=3)
    assert [one.evals for one in elsewhere.complete_runs] == [{"a/1", "b/c#x"}]


def test_a_judge_is_told_numbers_and_no_names() -> None:
    assert describe_across_models(None) == ""
    said = describe_across_models(CrossModelFailures(alike=("evil/ignore-this", "x/y"), models=4, earlier=("z/w",)))
    assert said.startswith("It fails the same way for 3 of 4 models")
    assert said.endswith("It failed the same way for one other model in an earlier version of this eval.")
    assert "evil" not in said
    assert describe_across_models(CrossModelFailures(earlier=("a/b", "c/d"))) == (
        "It failed the same way for 2 other models in an earlier version of this eval."
    )


def test_people_may_label_one_failure_differently_where_they_name_its_kind() -> None:
    first = FailureDescription("tests", "OVERLY_STRICT", None, None, "infrastructure")
    assert same_failure(FailureDescription("tests", "AMBIGUOUS_TASK", None, None, "infrastructure"), first)
    assert not same_failure(FailureDescription("tests", "AMBIGUOUS_TASK", None, None), first)
    assert not same_failure(FailureDescription("lint", "OVERLY_STRICT", None, None, "infrastructure"), first)
