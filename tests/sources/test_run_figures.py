"""Start time, duration and usage of a run, for every source that provides them."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalscribe.model.run import Run
from evalscribe.sources.address import Links, RunOverrides
from evalscribe.sources.convex_payload import decode_run
from evalscribe.sources.formats import open_records
from evalscribe.sources.records import count, figure, iso_time, seconds_between

JUNIT = """<testsuites>
<testsuite name="a" timestamp="2026-11-01T10:00:05+00:00" time="12.5">
  <testsuite name="inner" timestamp="2026-11-01T10:00:06+00:00" time="3"><testcase name="x" time="1"/></testsuite>
</testsuite>
<testsuite name="b" timestamp="2026-11-01T10:00:00+00:00" time="2.5"><testcase name="y"/></testsuite>
</testsuites>"""


def run_of(path: Path) -> Run:
    return next(one for one in open_records(path, RunOverrides()).read() if isinstance(one, Run))


def figures(run: Run) -> dict[str, Any]:
    return run.model_dump(include={"started_at", "duration_s", "input_tokens", "output_tokens", "cost_usd"})


def convex(status: object) -> Run:
    run = {"_id": "jn7062chca1fbmt288bmfcx79d81w8cb", "model": "m", "provider": "p", "status": status}
    summary = {"run": run, "totalEvals": 1, "passedCount": 1, "failedCount": 0, "failedEvals": []}
    return decode_run(json.loads(json.dumps(summary)), Links())


def test_convex_run_has_duration_tokens_and_cost() -> None:
    usage = {"inputTokens": 1200.0, "outputTokens": 30, "totalTokens": 1230, "raw": {"cost": 0.25}}
    run = convex({"kind": "completed", "durationMs": 184250.0, "usage": usage})
    assert figures(run) == {
        "started_at": None,
        "duration_s": 184.25,
        "input_tokens": 1200,
        "output_tokens": 30,
        "cost_usd": 0.25,
    }


@pytest.mark.parametrize(
    "status", [{"kind": "completed"}, {"kind": "completed", "durationMs": -1, "usage": {"inputTokens": True, "raw": 3}}]
)
def test_absent_or_invalid_convex_figures_are_none(status: object) -> None:
    assert set(figures(convex(status)).values()) == {None}


def test_real_convex_run_has_a_duration(real_data: Path) -> None:
    payload = json.loads((real_data / "convex-runs" / "jn70vkj7" / "failed_evals.json").read_text())
    run = decode_run(payload, Links())
    assert run.duration_s is not None
    assert 11 < run.duration_s < 12


def test_inspect_log_has_start_duration_and_tokens(real_data: Path) -> None:
    run = run_of(real_data / "inspect" / "log.eval")
    assert figures(run) == {
        "started_at": "2025-03-05T21:36:36+00:00",
        "duration_s": 5245.0,
        "input_tokens": 27949675,
        "output_tokens": 1534630,
        "cost_usd": None,
    }


def test_junit_start_and_duration_come_from_the_outermost_suites(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text(JUNIT)
    run = run_of(path)
    assert (run.started_at, run.duration_s) == ("2026-11-01T10:00:00+00:00", 15.0)


def test_tau2_times_and_cost_require_all_simulations_to_have_them(tmp_path: Path) -> None:
    one = {"task_id": "1", "trial": 0, "messages": [], "reward_info": {"reward": 1.0}}
    times = ({"start_time": "2026-11-01T10:00:00", "end_time": "2026-11-01T10:00:30", "agent_cost": 0.5},)
    later = {"start_time": "2026-11-01T10:00:20", "end_time": "2026-11-01T10:01:00", "agent_cost": 0.25}
    path = tmp_path / "tau2.json"
    whole = {"info": {}, "tasks": [], "simulations": [{**one, **times[0]}, {**one, "trial": 1, **later}]}
    path.write_text(json.dumps(whole))
    run = run_of(path)
    assert (run.started_at, run.duration_s, run.cost_usd) == ("2026-11-01T10:00:00", 60.0, 0.75)
    whole["simulations"].append({**one, "trial": 2})  # type: ignore[attr-defined]
    path.write_text(json.dumps(whole))
    assert set(figures(run_of(path)).values()) == {None}


def test_invalid_figures_become_none() -> None:
    assert [figure(value) for value in (1, 2.5, -1, True, "3", None, float("nan"), float("inf"), 10**400)] == [
        1.0, 2.5, *[None] * 7
    ]  # fmt: skip
    assert count(5.0) == 5
    assert iso_time("2026-11-01T10:00:00Z") == "2026-11-01T10:00:00Z"
    assert [iso_time(value) for value in ("\x1b[31mnow", 5, "1" * 99)] == [None] * 3
    assert seconds_between("2026-11-01T10:00:00Z", "2026-11-01T10:00:00") is None
    assert seconds_between("2026-11-01T10:00:05Z", "2026-11-01T10:00:00Z") is None
