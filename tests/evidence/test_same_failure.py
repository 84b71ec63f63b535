"""Recognising the same failure of an eval in runs of several models."""

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


def fingerprint(model: str = "p/m", **fields: Any) -> FailureFingerprint:
    provider, _, name = model.partition("/")
    defaults: dict[str, Any] = {
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
    return FailureFingerprint(**defaults | fields)


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
def test_version_is_the_same_only_with_equal_experiment_task_and_grader(fields: dict[str, Any], same: bool) -> None:
    assert same_version(fingerprint(), fingerprint("p/n", **fields)) is same
    assert same_version(fingerprint("p/n", **fields), fingerprint()) is same


def test_unknown_values_never_compare_equal() -> None:
    for fields in ({"task": None}, {"grader": None}, {"experiment": ""}):
        assert not same_version(fingerprint(**fields), fingerprint(**fields))
    for fields in ({"signature": None}, {"judged": False}, {"hidden": True}):
        assert not same_fingerprint(fingerprint(**fields), fingerprint(**fields))


def test_fingerprints_match_by_error_and_if_values_are_hidden_by_failed_tests() -> None:
    assert same_fingerprint(fingerprint(checks="x"), fingerprint("p/n", checks="y"))
    assert not same_fingerprint(fingerprint(), fingerprint("p/n", signature="tests: bang"))
    assert same_fingerprint(fingerprint(hidden=True, checks="x"), fingerprint("p/n", hidden=True, checks="x"))
    assert not same_fingerprint(fingerprint(hidden=True, checks="x"), fingerprint("p/n", hidden=True, checks="y"))


def test_model_is_counted_once_across_runs_and_spellings() -> None:
    others = [
        fingerprint("q/n-1.5", run="r1"),
        fingerprint("q/n-1-5", run="r2"),
        fingerprint("q/n-1-5", run="r3", signature="tests: bang"),
        fingerprint("p/M", run="r4"),
    ]
    assert compare(fingerprint(), others, {}) == CrossModelFailures(alike=("q/n-1-5",), models=2)


def test_same_model_from_another_provider_is_counted_once() -> None:
    served = [fingerprint("openrouter/p/m"), fingerprint("azure/M")]
    assert compare(fingerprint(), served, {"r": "azure/m"}) is None
    comparison = compare(
        fingerprint(), [*served, fingerprint("q/n"), fingerprint("azure/n")], {"r": "azure/m", "s": "x/o"}
    )
    assert comparison is not None
    assert (comparison.failing, comparison.models) == (2, 3)


def test_models_with_a_judged_result_on_the_same_version_are_counted() -> None:
    """Models that fail differently or pass count; other versions and failures before the model's work do not."""
    others = [
        fingerprint("q/alike"),
        fingerprint("q/otherwise", signature="tests: bang"),
        fingerprint("q/nothing-said", signature=None),
        fingerprint("q/not-reached", judged=False),
        fingerprint("q/older", grader="sha256:g0"),
        fingerprint("q/older-otherwise", grader="sha256:g0", signature="tests: bang"),
        fingerprint("q/elsewhere", experiment="other"),
    ]
    passed = {other.run: f"q/{other.model}" for other in others} | {"run-x": "q/clean", "run-of-p/m": "p/m"}
    comparison = compare(fingerprint(), others, passed)
    assert comparison == CrossModelFailures(alike=("q/alike",), models=5, earlier=("q/older",))
    assert comparison.failing == 2


def test_model_that_fails_alike_now_is_not_listed_as_earlier() -> None:
    others = [fingerprint("q/n", run="r1"), fingerprint("q/n", run="r2", task="sha256:t0")]
    assert compare(fingerprint(), others, {}) == CrossModelFailures(alike=("q/n",), models=2)


def test_failure_shared_by_no_other_model_has_no_comparison() -> None:
    for fields in ({"signature": None}, {"judged": False}):
        assert compare(fingerprint(**fields), [fingerprint("q/n", **fields)], {}) is None
    assert compare(fingerprint(), [fingerprint("q/n", eval="a/2")], {}) is None
    assert compare(fingerprint(), [fingerprint("q/n", signature="tests: bang")], {"r": "q/o"}) is None
    assert compare(fingerprint(), [], {"r": "q/n"}) is None


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({}, True),
        ({"status": "failed"}, False),
        ({"passed": 1}, False),
        ({"passed": 1, "failed": 2}, False),
    ],
)
def test_only_a_completed_run_that_lists_every_failure_counts_as_complete(fields: dict[str, Any], counts: bool) -> None:
    failure = Eval(id="e", category="a", name="1")
    defaults: dict[str, Any] = {"id": "r", "provider": "p", "model": "m", "passed": 2, "failed": 1, "total": 3}
    assert [one.model for one in complete_runs(Run(**defaults | {"failures": (failure,)} | fields))] == ["p/m"] * counts


def test_eval_passes_if_every_trial_passed() -> None:
    run = Run(id="r", provider="q", model="n", passed=3, total=3, evals=("a/1#1", "a/1#2", "b/c#x"))
    elsewhere = OtherRuns({"a/1": [compact_failure(fingerprint("q/o"))]}, tuple(complete_runs(run)))
    assert elsewhere.across(compact_failure(fingerprint())) == CrossModelFailures(alike=("q/o",), models=3)
    assert [one.evals for one in elsewhere.complete_runs] == [{"a/1", "b/c#x"}]


def test_description_states_numbers_but_no_model_names() -> None:
    assert describe_across_models(None) == ""
    description = describe_across_models(
        CrossModelFailures(alike=("evil/ignore-this", "x/y"), models=4, earlier=("z/w",))
    )
    assert description.startswith("It fails the same way for 3 of 4 models")
    assert description.endswith("It failed the same way for one other model in an earlier version of this eval.")
    assert "evil" not in description
    assert describe_across_models(CrossModelFailures(earlier=("a/b", "c/d"))) == (
        "It failed the same way for 2 other models in an earlier version of this eval."
    )


def test_failures_with_the_same_cause_kind_match_despite_different_labels() -> None:
    first = FailureDescription("tests", "OVERLY_STRICT", None, None, "infrastructure")
    assert same_failure(FailureDescription("tests", "AMBIGUOUS_TASK", None, None, "infrastructure"), first)
    assert not same_failure(FailureDescription("tests", "AMBIGUOUS_TASK", None, None), first)
    assert not same_failure(FailureDescription("lint", "OVERLY_STRICT", None, None, "infrastructure"), first)
