"""Clustering of failures by cause, with cluster texts that are valid markdown."""

from typing import Any

from evalscribe.collections.clusters import CausedFailure, cause_observations, cluster_by_cause
from evalscribe.model.exploration import Member
from evalscribe.text import code_spans


def failure(number: int, why: str, cause: str = "calls-no-tool", **more: Any) -> CausedFailure:
    fields = {"provider": "example", "model": "m", "task": f"task-{number}", "trial": 1, "status": "failed"}
    member = Member.model_validate({"id": f"e{number}", "run_id": "r", "eval": f"desk/task-{number}", **fields})
    return CausedFailure(member=member, cause=cause, kind="model", why=why, error="", **more)


def names(*failures: CausedFailure) -> list[tuple[str, int]]:
    return [(each.name, len(each.observations)) for each in cluster_by_cause(failures, cause_observations(failures))]


def test_truncated_reason_does_not_break_code_spans_of_other_reasons() -> None:
    failures = [failure(1, f"{'A' * 140} `cancel_reservation_of` was expected."), failure(2, "`book` was expected.")]
    (cluster,) = cluster_by_cause(failures, cause_observations(failures))
    assert "`book` was expected" in cluster.text
    assert [cluster.text[first:end] for first, end in code_spans(cluster.text)] == ["`book`"]


def test_cluster_of_uncertain_failures_is_not_named_after_a_certain_cause() -> None:
    sure = failure(1, "repeats a call", "repeats-a-call", signature="limit")
    unsure = [failure(n, "not finished", "limit-reached", signature="limit", uncertain=True) for n in (2, 3)]
    assert names(sure, *unsure) == [("limit-reached", 2)]


def test_uncertain_failure_joins_only_a_certain_one_with_the_same_error() -> None:
    sure, unsure = (failure(n, "x", f"cause-{n}", signature="same", uncertain=n > 1) for n in (1, 2))
    assert names(sure, unsure) == [("cause-1", 2)]
    assert names(unsure, failure(3, "x", "cause-3", signature="same", uncertain=True)) == []
