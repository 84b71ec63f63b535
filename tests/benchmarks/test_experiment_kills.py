"""Run a part of the benchmarks of kills and cancellations."""

from pathlib import Path

import pytest

from benchmarks.experiment_cancels import SOURCE, Cancelled, cancelled
from benchmarks.experiment_kills import LANES, judged
from benchmarks.experiment_lab import opened
from support.machine_speed import slowness


def test_what_was_stored_when_all_processes_were_killed_is_not_done_again(tmp_path: Path) -> None:
    with judged(tmp_path) as killing:
        killing.go("agent", 1, 40, ways=("all",))
    assert killing.losses.wrong == []
    assert killing.losses.kills == {"all": 1}
    most = LANES
    again = killing.losses.repeated, killing.losses.rescored, killing.losses.asked_again
    assert max(again) <= most, "at most what was under way"


def test_nothing_that_a_target_started_outlives_a_cancelled_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled_run(tmp_path, monkeypatch)


@pytest.mark.benchmark
def test_a_cancelled_run_is_over_within_two_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cancelled_run(tmp_path, monkeypatch).from_flag_s < 2 * slowness()


def cancelled_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cancelled:
    """Cancel a run whose target ignores SIGTERM and has child processes, one of them in its own session."""
    monkeypatch.chdir(tmp_path)
    with opened(tmp_path, SOURCE) as lab:
        done = cancelled(lab, "deaf")
    assert (done.state, done.tries, done.gate) == ("cancelled", 4, False)
    return done
