"""Decisions of use cases, tested without a surface."""

from typing import Any

import pytest

from evalscribe.analysis.analyze import nothing_failed
from evalscribe.analysis.estimates import NothingFailed
from evalscribe.cli.doctor import NotConfigured, run_checks
from evalscribe.collections.runs import find_failure
from evalscribe.errors import AccessError, EvalscribeError, NotFoundError, UsageError
from evalscribe.model.protocols import Estimate
from evalscribe.model.run import Eval, Run


def run_of(*paths: str, **fields: Any) -> Run:
    evals = (path.split("/") for path in paths)
    failures = tuple(Eval(id=f"id{n}", category=category, name=name) for n, (category, name) in enumerate(evals))
    return Run(id="run1", provider="p", model="m", failures=failures, **fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"passed": 3, "total": 3}, "All 3 evals passed. Nothing was written."),
        ({"passed": 2, "total": 3}, "The run is completed. No failed eval is listed (2 of 3 evals passed, 1 never"),
        (
            {"passed": 3, "total": 3, "status": "running"},
            "The run has not ended. No failed eval is listed (3 of the 3 evals that were started passed).",
        ),
        (
            {"passed": 3, "total": 5, "status": "running"},
            "The run has not ended. No failed eval is listed (3 of the 5 evals that were started passed, 2 have not",
        ),
        (
            {"passed": 0, "total": 0, "status": "failed", "status_reason": "quota."},
            "The run did not complete: quota. No failed eval is listed (no eval was started).",
        ),
        ({"passed": 2, "failed": 1, "total": 3}, "The source counts 1 failed evals but lists none of them (2 of 3"),
    ],
)
def test_all_passed_is_claimed_only_if_every_eval_passed(fields: dict[str, Any], expected: str) -> None:
    assert nothing_failed(run_of(**fields)).startswith(expected)


def test_run_without_failures_has_an_empty_analysis_document() -> None:
    run = run_of(passed=2, total=3)
    document = NothingFailed(run=run, message="").analysis
    assert (document.run.id, document.run.incomplete, document.findings) == ("run1", 1, ())
    assert document.usage is not None
    assert document.usage.calls == 0


@pytest.mark.parametrize(("name", "path"), [("a/x", "a/x"), ("z", "b/z"), ("id1", "b/z"), ("b/y", "b/y")])
def test_failure_is_found_by_id_path_or_name(name: str, path: str) -> None:
    assert find_failure(run_of("a/x", "b/z", "b/y", "c/y"), name).path == path


def test_trial_is_found_without_its_category() -> None:
    trials = [Eval(id=f"id{n}", category="a", name="x", trial=n, trials=2) for n in (1, 2)]
    run = run_of().model_copy(update={"failures": tuple(trials)})
    assert find_failure(run, "x#2") == trials[1]
    with pytest.raises(UsageError, match="a/x#1, a/x#2"):
        find_failure(run, "a/x")


@pytest.mark.parametrize(
    ("name", "error", "expected"),
    [
        ("y", UsageError, "b/y, c/y"),
        ("nothing", NotFoundError, "a/x, b/z, b/y, c/y"),
        ("", NotFoundError, "run run1"),
    ],
)
def test_ambiguous_or_unknown_name_is_an_error(name: str, error: type[EvalscribeError], expected: str) -> None:
    with pytest.raises(error, match=expected):
        find_failure(run_of("a/x", "b/z", "b/y", "c/y"), name)


def test_long_list_of_candidates_is_shortened() -> None:
    with pytest.raises(NotFoundError, match="and 15 more"):
        find_failure(run_of(*(f"a/{n}" for n in range(20))), "nothing")


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (Estimate(input_tokens=119_000, output_tokens=1_000, cost_usd=1.204), "about 120,000 tokens, $1.20"),
        (Estimate(input_tokens=5, cost_usd=None), "about 5 tokens"),
        (Estimate(), "about 0 tokens, $0.00"),
    ],
)
def test_estimate_summary(estimate: Estimate, expected: str) -> None:
    assert estimate.summary == expected


async def test_each_check_reports_its_state() -> None:
    async def well() -> str:
        return "answers"

    async def badly() -> str:
        raise AccessError("no key\nset one")

    async def not_at_all() -> NotConfigured:
        return NotConfigured(detail="no key\nset one")

    good, bad, none = await run_checks({"one": well, "two": badly, "three": not_at_all})
    assert (good.name, good.state, good.detail) == ("one", "ok", "answers")
    assert (bad.name, bad.state, bad.detail) == ("two", "NOT OK", "no key")
    assert (none.name, none.state, none.detail) == ("three", "not set", "no key")
