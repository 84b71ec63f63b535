"""An analysis that was stopped in any way continues where it stopped, in real processes."""

import json
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from support.fork_server import Process, fork_server
from support.machine_speed import slowness
from support.waiting import PATIENCE_S, wait_until

PROCESS = Path(__file__).parents[1] / "support" / "analysis_process.py"
WORKERS = 4
SIGNALS = [(signal.SIGINT, 130, "interr"), (signal.SIGTERM, 143, "termin")]


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def start(folder: Path, groups: int, answers: int, *more: str) -> Process:
    """Start a process that gets this many answers and then waits for the next one."""
    return fork_server.start([PROCESS, folder, str(groups), str(answers), *more])


def start_and_wait_until_held(folder: Path, groups: int, answers: int) -> Process:
    """Start a process, and wait until all its workers wait for an answer that does not come."""
    questions = len(lines(folder / "asked")) + answers - len(lines(folder / "answered")) + WORKERS
    process = start(folder, groups, answers)
    wait_until(lambda: len(lines(folder / "asked")) >= questions, "all lanes wait")
    return process


def end(process: Process, number: signal.Signals) -> tuple[int, str, float]:
    """Send a signal. Return the exit code, the standard error and the seconds until the end."""
    began = time.monotonic()
    process.send_signal(number)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    return process.returncode, stderr, time.monotonic() - began


@pytest.mark.parametrize("store", ["file", "server"])
def test_killed_analysis_repeats_only_calls_in_flight(
    store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if store == "server":
        monkeypatch.setenv("LANE_STORE", request.getfixturevalue("postgres_url"))
    end(start_and_wait_until_held(tmp_path, 40, 20), signal.SIGKILL)
    answered = set(lines(tmp_path / "answered"))
    out, stderr = start(tmp_path, 40, 99).communicate(timeout=PATIENCE_S)
    counts, questions = json.loads(out), Counter(lines(tmp_path / "asked"))
    assert stderr == ""
    assert len(questions) == counts["total"] == 40
    assert counts["cached"] == len(answered) == 20
    assert sum(questions.values()) <= 40 + WORKERS, "at most the four in flight are sent twice"
    assert counts["judged"] + counts["cached"] == 40


def test_repeatedly_killed_analysis_repeats_only_calls_in_flight(tmp_path: Path) -> None:
    kills = 4
    for killed in range(1, kills + 1):
        end(start_and_wait_until_held(tmp_path, 40, 7 * killed), signal.SIGKILL)
    out, _ = start(tmp_path, 40, 99).communicate(timeout=PATIENCE_S)
    assert json.loads(out)["total"] == 40
    assert sum(Counter(lines(tmp_path / "asked")).values()) <= 40 + WORKERS * kills


@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_signal_stops_the_analysis_and_keeps_finished_work(
    number: signal.Signals, code: int, word: str, tmp_path: Path
) -> None:
    exit_code, stderr, _ = end(start_and_wait_until_held(tmp_path, 40, 8), number)
    assert (exit_code, stderr.count("\n")) == (code, 1), stderr
    assert stderr.startswith(word)
    assert "run the same command again" in stderr
    answered = set(lines(tmp_path / "answered"))
    out, _ = start(tmp_path, 40, 99).communicate(timeout=PATIENCE_S)
    assert json.loads(out)["cached"] == len(answered) == 8, "what was answered was kept"
    assert sum(Counter(lines(tmp_path / "asked")).values()) <= 44


@pytest.mark.parametrize(("number", "code", "_"), SIGNALS)
@pytest.mark.parametrize(("manner", "questions"), [("stubborn", WORKERS), ("busy", 1)])
def test_signal_ends_the_process_despite_a_blocked_judge(
    number: signal.Signals, code: int, _: str, manner: str, questions: int, tmp_path: Path
) -> None:
    """The judge sleeps in a thread for an hour, or computes without a pause."""
    process = start(tmp_path, 8, 0, manner)
    wait_until(lambda: len(lines(tmp_path / "asked")) >= questions, "questions")
    exit_code, stderr, _ = end(process, number)
    assert (exit_code, stderr.count("\n")) == (code, 1), stderr


@pytest.mark.benchmark
@pytest.mark.parametrize("manner", ["", "stubborn", "busy"])
def test_signal_ends_the_process_within_a_second(manner: str, tmp_path: Path) -> None:
    process = start(tmp_path, 8, 0, manner)
    wait_until(lambda: lines(tmp_path / "asked"), "questions")
    _, _, seconds = end(process, signal.SIGTERM)
    assert seconds < slowness()


def test_second_analysis_of_a_run_names_the_running_process(tmp_path: Path) -> None:
    process = start_and_wait_until_held(tmp_path, 8, 0)
    second = start(tmp_path, 8, 99)
    _, stderr = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 69
    assert f"process {process.pid} since" in stderr
    end(process, signal.SIGKILL)
    third = start(tmp_path, 8, 99)
    third.communicate(timeout=PATIENCE_S)
    assert third.returncode == 0
