"""Failures put together by their cause, in words that stand in markdown."""

from evalscribe.exploration import Member
from evalscribe.explore import Failure
from evalscribe.explore.causes import by_cause, observations_of
from evalscribe.prose import code_spans


def failure(number: int, why: str) -> Failure:
    told = {"provider": "example", "model": "m", "task": f"task-{number}", "trial": 1, "status": "failed"}
    member = Member.model_validate({"id": f"e{number}", "run_id": "r", "eval": f"desk/task-{number}", **told})
    return Failure(member=member, cause="calls-no-tool", kind="model", why=why, error="")


def test_a_reason_that_is_cut_in_a_name_leaves_the_code_of_the_others_closed() -> None:
    failures = [failure(1, f"{'A' * 140} `cancel_reservation_of` was expected."), failure(2, "`book` was expected.")]
    (cluster,) = by_cause(failures, observations_of(failures))
    assert "`book` was expected" in cluster.text
    assert [cluster.text[first:end] for first, end in code_spans(cluster.text)] == ["`book`"]
