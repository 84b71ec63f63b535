"""Measure the cost of a trial apart from its target: CPU of all processes, memory, and time at a given latency.

    python tests/benchmarks/experiment_speed.py [ITEMS ...] [--late TIMES]

Each number of items is run with a Python component that answers at once and with three scorers. Every trial is stored
before its worker slot takes the next item, and the run is also archived. Then, TIMES times, 32 slots run components
that take 200 ms: a function, a coroutine and an address. The commit messages have figures for a machine with two cores.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.experiment_lab import Lab, component, opened
from benchmarks.slow_server import slow_server
from evalscribe.model.experiment import ExperimentRun
from evalscribe.model.target import Component

SOURCE = """\
import asyncio, time

def at_once(question):
    return {"answer": question}

def with_messages(question):
    return {"output": {"answer": question}, "messages": [
        {"role": "user", "content": question},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": "search", "arguments": {"q": question}}]},
        {"role": "tool", "tool_call_id": "1", "content": "found"},
        {"role": "assistant", "content": question},
    ]}

def slowly(question):
    time.sleep(0.2)
    return {"answer": question}

async def awaited(question):
    await asyncio.sleep(0.2)
    return {"answer": question}
"""
LATENCY_S = 0.2
LANES = 32
ROUNDS = 50
"""Number of trials in each worker slot."""


@dataclass(frozen=True)
class Measured:
    items: int
    wall_s: float
    """Seconds from the start of the worker to the last trial."""
    first_s: float
    """Seconds from the start of the worker to the first answer."""
    process_s: float
    """Seconds for which the worker's process ran, including its start and its end."""
    cpu_s: float
    """CPU seconds of the worker and its child processes."""
    peak_kb: int
    """Peak memory of the largest process."""

    @property
    def ms(self) -> float:
        """CPU milliseconds per item."""
        return self.cpu_s / self.items * 1000


def measured(lab: Lab, run: ExperimentRun) -> Measured:
    """Run the experiment in a process, in the same way as `experiments run`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "evalscribe", "experiments", "runs", "work", run.id]
    began = time.perf_counter()
    subprocess.run(command, cwd=lab.folder, check=True, stdout=subprocess.DEVNULL)
    process_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = lab.now(run)
    assert ended.state == "completed", ended
    assert lab.workspace.store.experiment_runs.tally(run.id) == {"passed": run.items}
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    first_s, last_s = _tried_s(lab, ended)
    return Measured(run.items, last_s, first_s, process_s, cpu, after.ru_maxrss)


def _tried_s(lab: Lab, run: ExperimentRun) -> tuple[float, float]:
    """Return the seconds from the start of the run to the first and to the last answer."""
    at = [item.created_at for item in lab.workspace.store.experiment_runs.items(run.id)]
    began = datetime.fromisoformat(run.started_at or "")
    first, last = ((datetime.fromisoformat(one) - began).total_seconds() for one in (min(at), max(at)))
    return first, last


@contextmanager
def folder() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory() as name, opened(Path(name), SOURCE) as lab:
        yield lab


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", nargs="*", type=int, default=[20, 1_000, 10_000])
    parser.add_argument("--late", type=int, default=1)
    given = parser.parse_args()
    for items in given.items:
        for function in ("at_once", "with_messages"):
            with folder() as lab:
                one = measured(lab, lab.ready(items, component(function), 4))
                stored = os.path.getsize(lab.folder / ".evalscribe" / "store.db") / 1e6
            told = f"{one.cpu_s:.2f} s CPU, {one.ms:.2f} ms each, {one.wall_s:.2f} s of tries"
            print(f"{items} items {function}: {told}, {one.peak_kb / 1024:.0f} MB, {stored:.1f} MB stored", flush=True)
    with slow_server(LATENCY_S) as url:
        address = Component(name="address", kind="http", address=url)
        for one in (component("slowly"), component("awaited"), address) * given.late:
            _late_tries(one)


def _late_tries(target: Component) -> None:
    """Print how far the time is from the ideal, and how much is spent before the first question and per answer."""
    with folder() as lab:
        one = measured(lab, lab.ready(LANES * ROUNDS, target, LANES))
    ideal, start = ROUNDS * LATENCY_S, one.first_s - LATENCY_S
    beside = (one.wall_s - start - ideal) / ROUNDS * 1000
    print(
        f"200 ms, {LANES} lanes, {target.name}: {one.wall_s:.2f} s, {one.wall_s / ideal:.3f} of the ideal; "
        f"start {start:.2f} s, beside each answer {beside:.1f} ms; {one.ms:.2f} ms CPU each; "
        f"its process {one.process_s:.2f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
