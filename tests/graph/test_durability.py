"""Ended in any way, a run goes on where it was: in real processes."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from promptly import within_a_second

PROCESS = Path(__file__).with_name("lane_process.py")


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def start(folder: Path, groups: int, seconds: float, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROCESS), str(folder), str(groups), str(seconds), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, float]:
    """Send a signal; the exit code, what standard error says, and how long it took."""
    began = time.monotonic()
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    return process.returncode, said, time.monotonic() - began


def wait_for(file: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(lines(file)) < count:
        assert time.monotonic() < deadline, f"only {len(lines(file))} lines in {file.name}"
        time.sleep(0.005)


@pytest.mark.parametrize("store", ["file", "server"])
def test_kill_9_repeats_only_what_was_in_flight(
    store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if store == "server":
        monkeypatch.setenv("LANE_STORE", request.getfixturevalue("postgres_url"))
    process = start(tmp_path, 40, 0.1)
    wait_for(tmp_path / "answered", 20)
    end(process, signal.SIGKILL)
    answered = set(lines(tmp_path / "answered"))
    out, said = start(tmp_path, 40, 0.01).communicate(timeout=60)
    counts, asked = json.loads(out), Counter(lines(tmp_path / "asked"))
    assert said == ""
    assert len(asked) == counts["total"] == 40
    assert counts["cached"] >= len(answered) - 4
    assert sum(asked.values()) <= 40 + 4, "at most the four in flight are sent twice"
    assert counts["judged"] + counts["cached"] == 40


def test_killed_again_and_again(tmp_path: Path) -> None:
    kills = 4
    for killed in range(1, kills + 1):
        process = start(tmp_path, 40, 0.05)
        wait_for(tmp_path / "answered", 7 * killed)
        end(process, signal.SIGKILL)
    out, _ = start(tmp_path, 40, 0.01).communicate(timeout=60)
    assert json.loads(out)["total"] == 40
    assert sum(Counter(lines(tmp_path / "asked")).values()) <= 40 + 4 * kills


@pytest.mark.parametrize(("number", "code", "word"), [(signal.SIGINT, 130, "interr"), (signal.SIGTERM, 143, "termin")])
def test_a_signal_ends_it_within_a_second(number: signal.Signals, code: int, word: str, tmp_path: Path) -> None:
    def stopped(attempt: int) -> float:
        folder = tmp_path / str(attempt)
        folder.mkdir()
        process = start(folder, 40, 0.1)
        wait_for(folder / "answered", 8)
        returned, said, seconds = end(process, number)
        assert (returned, said.count("\n")) == (code, 1), said
        assert said.startswith(word)
        assert "run the same command again" in said
        answered = set(lines(folder / "answered"))
        out, _ = start(folder, 40, 0.01).communicate(timeout=60)
        assert json.loads(out)["cached"] == len(answered), "what was answered was kept"
        assert sum(Counter(lines(folder / "asked")).values()) <= 44
        return seconds

    assert within_a_second(stopped)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(("manner", "asked"), [("stubborn", 4), ("busy", 1)])
def test_what_will_not_end_is_left_behind(
    number: signal.Signals, code: int, manner: str, asked: int, tmp_path: Path
) -> None:
    """A thread that sleeps on, or a judge that computes without a pause."""

    def stopped(attempt: int) -> float:
        folder = tmp_path / str(attempt)
        folder.mkdir()
        process = start(folder, 8, 30, manner)
        wait_for(folder / "asked", asked)
        returned, said, seconds = end(process, number)
        assert (returned, said.count("\n")) == (code, 1), said
        return seconds

    assert within_a_second(stopped)


def test_a_second_start_is_told_who_is_at_it(tmp_path: Path) -> None:
    process = start(tmp_path, 8, 30)
    wait_for(tmp_path / "asked", 4)
    second = start(tmp_path, 8, 0)
    _, said = second.communicate(timeout=30)
    assert second.returncode == 69
    assert f"process {process.pid} since" in said
    end(process, signal.SIGKILL)
    third = start(tmp_path, 8, 0)
    third.communicate(timeout=30)
    assert third.returncode == 0
