"""Ended in any way, a run goes on where it was: in real processes."""

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
LANES = 4
SIGNALS = [(signal.SIGINT, 130, "interr"), (signal.SIGTERM, 143, "termin")]


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def start(folder: Path, groups: int, answers: int, *more: str) -> Process:
    """Start a process that gets this many answers and then waits for more."""
    return fork_server.start([PROCESS, folder, str(groups), str(answers), *more])


def stuck(folder: Path, groups: int, answers: int) -> Process:
    """The same, once all its lanes wait for an answer that does not come."""
    asked = len(lines(folder / "asked")) + answers - len(lines(folder / "answered")) + LANES
    process = start(folder, groups, answers)
    wait_until(lambda: len(lines(folder / "asked")) >= asked, "all lanes wait")
    return process


def end(process: Process, number: signal.Signals) -> tuple[int, str, float]:
    """Send a signal; the exit code, what standard error says, and how long it took."""
    began = time.monotonic()
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said, time.monotonic() - began


@pytest.mark.parametrize("store", ["file", "server"])
def test_kill_9_repeats_only_what_was_in_flight(
    store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if store == "server":
        monkeypatch.setenv("LANE_STORE", request.getfixturevalue("postgres_url"))
    end(stuck(tmp_path, 40, 20), signal.SIGKILL)
    answered = set(lines(tmp_path / "answered"))
    out, said = start(tmp_path, 40, 99).communicate(timeout=PATIENCE_S)
    counts, asked = json.loads(out), Counter(lines(tmp_path / "asked"))
    assert said == ""
    assert len(asked) == counts["total"] == 40
    assert counts["cached"] == len(answered) == 20
    assert sum(asked.values()) <= 40 + LANES, "at most the four in flight are sent twice"
    assert counts["judged"] + counts["cached"] == 40


def test_killed_again_and_again(tmp_path: Path) -> None:
    kills = 4
    for killed in range(1, kills + 1):
        end(stuck(tmp_path, 40, 7 * killed), signal.SIGKILL)
    out, _ = start(tmp_path, 40, 99).communicate(timeout=PATIENCE_S)
    assert json.loads(out)["total"] == 40
    assert sum(Counter(lines(tmp_path / "asked")).values()) <= 40 + LANES * kills


@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_a_signal_ends_it(number: signal.Signals, code: int, word: str, tmp_path: Path) -> None:
    returned, said, _ = end(stuck(tmp_path, 40, 8), number)
    assert (returned, said.count("\n")) == (code, 1), said
    assert said.startswith(word)
    assert "run the same command again" in said
    answered = set(lines(tmp_path / "answered"))
    out, _ = start(tmp_path, 40, 99).communicate(timeout=PATIENCE_S)
    assert json.loads(out)["cached"] == len(answered) == 8, "what was answered was kept"
    assert sum(Counter(lines(tmp_path / "asked")).values()) <= 44


@pytest.mark.parametrize(("number", "code", "_"), SIGNALS)
@pytest.mark.parametrize(("manner", "asked"), [("stubborn", LANES), ("busy", 1)])
def test_what_will_not_end_is_left_behind(
    number: signal.Signals, code: int, _: str, manner: str, asked: int, tmp_path: Path
) -> None:
    """A thread that sleeps for an hour, or a judge that computes without a pause."""
    process = start(tmp_path, 8, 0, manner)
    wait_until(lambda: len(lines(tmp_path / "asked")) >= asked, "questions")
    returned, said, _ = end(process, number)
    assert (returned, said.count("\n")) == (code, 1), said


@pytest.mark.benchmark
@pytest.mark.parametrize("manner", ["", "stubborn", "busy"])
def test_a_signal_ends_it_within_a_second(manner: str, tmp_path: Path) -> None:
    process = start(tmp_path, 8, 0, manner)
    wait_until(lambda: lines(tmp_path / "asked"), "questions")
    _, _, seconds = end(process, signal.SIGTERM)
    assert seconds < slowness()


def test_a_second_start_is_told_who_is_at_it(tmp_path: Path) -> None:
    process = stuck(tmp_path, 8, 0)
    second = start(tmp_path, 8, 99)
    _, said = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 69
    assert f"process {process.pid} since" in said
    end(process, signal.SIGKILL)
    third = start(tmp_path, 8, 99)
    third.communicate(timeout=PATIENCE_S)
    assert third.returncode == 0
