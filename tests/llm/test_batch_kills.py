"""Real processes are killed with SIGKILL at various moments and continue without submitting anything twice."""

import multiprocessing
import os
import random
import signal
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

import pytest

from support import batch_process
from support.batches_server import BatchesServer
from support.waiting import PATIENCE_S

QUESTIONS = [f"q{n}" for n in range(5)]
CLIENTS = [
    *(f"{when} {what}" for what in ("add", "submitted", "settle") for when in ("before", "after")),
    "after take",
    "before verdicts",
]
"""Moments at which the process kills itself."""
SERVERS = ["arrived", "made", "looked", "results", "half of the results"]
"""Moments at which the server kills the process: the batch exists but the process does not learn of it."""
RECOVERY = ["listed", "before drop", "after drop", *SERVERS, *CLIENTS]
"""Moments at which a process that continues after a kill may be killed again."""
IMPORTED = [
    "anthropic.resources.messages.batches",
    "alembic.command",
    "evalscribe.llm.anthropic_errors",
    "evalscribe.llm.batch",
    "evalscribe.store.results",
    "pytest",
]


@pytest.fixture(scope="module")
def forks() -> ForkServerContext:
    """Fork server that has preloaded the slow imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context


class Machine:
    """Runs and kills processes that share one store."""

    def __init__(self, forks: ForkServerContext, folder: Path) -> None:
        self.forks = forks
        self.folder = folder
        self.server = BatchesServer(looks=2, hook=self._kill)
        self._moment = ""
        self._victim: ForkServerProcess | None = None

    def start(self, questions: list[str], moment: str = "", out: str = "verdicts") -> ForkServerProcess:
        arguments = (self.server.url, str(self.folder / "store"), questions, moment, str(self.folder / out))
        process = self.forks.Process(target=batch_process.run, args=arguments)
        process.start()
        return process

    def run(self, moment: str = "") -> int | None:
        """Run a process that is killed at `moment`, if it reaches it, and return its exit code."""
        self._moment = moment
        self._victim = self.start(QUESTIONS, moment)
        self._victim.join(PATIENCE_S)
        self._moment = ""
        return self._victim.exitcode

    def verdicts(self, out: str = "verdicts") -> list[str]:
        return (self.folder / out).read_text().splitlines()

    def _kill(self, moment: str) -> None:
        if moment == self._moment and self._victim and self._victim.pid:
            os.kill(self._victim.pid, signal.SIGKILL)


@pytest.fixture
def machine(forks: ForkServerContext, tmp_path: Path) -> Iterator[Machine]:
    opened = Machine(forks, tmp_path)
    with opened.server:
        yield opened


def finished(machine: Machine) -> None:
    assert machine.run() == 0
    assert machine.verdicts() == [f"to {question}" for question in QUESTIONS]
    assert sorted(machine.server.submitted.values()) == [1] * len(QUESTIONS), "nothing was submitted twice"
    assert machine.server.singles == []


@pytest.mark.parametrize("moment", [*CLIENTS, *SERVERS])
def test_process_killed_at_any_moment_continues_without_resubmitting(machine: Machine, moment: str) -> None:
    assert machine.run(moment) == -signal.SIGKILL
    finished(machine)


@pytest.mark.parametrize("seed", range(6))
def test_process_killed_repeatedly_continues_without_resubmitting(machine: Machine, seed: int) -> None:
    chance = random.Random(seed)
    first = ["after add", "arrived", "made", "before submitted"]
    kills = [chance.choice(first), *chance.choices(RECOVERY, k=3)]
    codes = [machine.run(moment) for moment in kills]
    assert codes[0] == -signal.SIGKILL
    finished(machine)


def test_concurrent_processes_submit_shared_requests_once(machine: Machine) -> None:
    halves = [QUESTIONS[:4], QUESTIONS[1:]]
    both = [machine.start(questions, out=f"verdicts {n}") for n, questions in enumerate(halves)]
    for process in both:
        process.join(PATIENCE_S)
    assert [process.exitcode for process in both] == [0, 0]
    assert [machine.verdicts(f"verdicts {n}") for n in range(2)] == [[f"to {q}" for q in half] for half in halves]
    assert sorted(machine.server.submitted.values()) == [1] * len(QUESTIONS)


@pytest.mark.parametrize("moment", ["after add", "made"])
def test_concurrent_processes_recover_a_killed_one_without_resubmitting(machine: Machine, moment: str) -> None:
    machine.run(moment)
    both = [machine.start(QUESTIONS, out=f"verdicts {n}") for n in range(2)]
    for process in both:
        process.join(PATIENCE_S)
    assert [process.exitcode for process in both] == [0, 0]
    assert sorted(machine.server.submitted.values()) == [1] * len(QUESTIONS)
