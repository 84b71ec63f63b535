"""Comparisons of real runs, checked against their known results."""

import json
from pathlib import Path

import pytest

from evalscribe.collections.compare import RunEvals, build_matrix, compare_sides, compare_within
from evalscribe.model.record import GradedEval, Record, Records
from evalscribe.model.run import Run
from evalscribe.sources.address import Links, RunOverrides
from evalscribe.sources.convex_payload import decode_run
from evalscribe.sources.formats import open_records

TAU = "tau-bench/gpt-4o-airline-tasks-0-24.json"


def read(records: Records) -> RunEvals:
    runs, graded = [], []
    for one in records.read():
        if isinstance(one, Record):
            graded.append(GradedEval(run_id=one.run_id, eval=one.eval))
        else:
            runs.append(one)
    (run,) = runs
    return RunEvals(run.model_copy(update={"total": len(graded)}), tuple(graded))


@pytest.fixture
def halves(real_data: Path, tmp_path: Path) -> tuple[RunEvals, RunEvals]:
    """Return two runs of the same model: trials 0 and 1, and trials 2 and 3."""
    trials = json.loads((real_data / TAU).read_text())
    sides = []
    for name, own in (("a", (0, 1)), ("b", (2, 3))):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps([one for one in trials if one["trial"] in own]))
        sides.append(read(open_records(path, RunOverrides(provider="openai", model="gpt-4o"))))
    return sides[0], sides[1]


def test_model_does_not_differ_significantly_from_itself(halves: tuple[RunEvals, RunEvals]) -> None:
    comparison = compare_sides([halves[0]], [halves[1]])
    assert (comparison.base.passed, comparison.candidate.passed) == (14, 17)
    assert len(comparison.pairs) == 25
    assert comparison.apart == ()
    assert not comparison.passes.significant
    assert comparison.passes.low < 0 < comparison.passes.high


def test_every_failed_trial_is_paired_with_a_passed_one_if_any(
    halves: tuple[RunEvals, RunEvals], real_data: Path
) -> None:
    all_trials = read(open_records(real_data / TAU, RunOverrides()))
    comparison = compare_within([all_trials])
    rewards: dict[int, list[float]] = {}
    for one in json.loads((real_data / TAU).read_text()):
        rewards.setdefault(one["task_id"], []).append(one["reward"])
    assert len(comparison.pairs) == sum(r.count(0.0) for r in rewards.values() if 1.0 in r) == 29
    assert len(comparison.without) == sum(1.0 not in r for r in rewards.values()) == 10
    assert len(build_matrix([[half] for half in halves]).rows) == 25


def test_real_failures_only_runs_are_compared(real_data: Path) -> None:
    def convex(name: str) -> RunEvals:
        summary = json.loads((real_data / "convex-runs" / name / "failed_evals.json").read_text())
        run: Run = decode_run(summary, Links())
        return RunEvals(run, tuple(GradedEval(run_id=run.id, eval=eval) for eval in run.failures))

    comparison = compare_sides([convex("jn7922j1")], [convex("jn72t14a")])
    assert (comparison.base.passed, comparison.candidate.passed, comparison.evals) == (54, 55, 65)
    assert (len(comparison.of("regressed")), len(comparison.of("fixed"))) == (3, 4)
    assert comparison.passes.p == 1.0
    assert sum("never completed" in note for note in comparison.notes) == 2
    other = compare_sides([convex("jn76nmvg")], [convex("jn7ajdrr")])
    assert (len(other.of("regressed")), len(other.of("fixed"))) == (13, 5)
    assert not other.passes.significant, "13 and 5 of 65: p is 0.096"
