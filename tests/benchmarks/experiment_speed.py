"""What a try of an experiment costs beside its target: CPU of all processes, memory, and time at a latency.

    python tests/benchmarks/experiment_speed.py [ITEMS ...]

Each size runs over a component in Python that answers at once, with three scorers, every item stored before its lane
takes the next and archived; then 32 lanes over components that take 200 ms: a function, a coroutine, an
address. Figures of a machine with two cores are in the commit that changed them.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.experiment_lab import Lab, component, opened
from evalscribe.deployment import Component
from evalscribe.experiment import ExperimentRun
from scripted_server import Answer, Call, ScriptedServer

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
"""That every lane takes."""


@dataclass(frozen=True)
class Measured:
    items: int
    wall_s: float
    """From the worker's beginning to the last try."""
    cpu_s: float
    """Of the worker and of its children."""
    peak_kb: int
    """Of the largest of them."""

    @property
    def ms(self) -> float:
        """CPU for each item."""
        return self.cpu_s / self.items * 1000


def measured(lab: Lab, run: ExperimentRun) -> Measured:
    """The run, in a process as `experiments run` starts it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "evalscribe", "experiments", "runs", "work", run.id]
    subprocess.run(command, cwd=lab.folder, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = lab.now(run)
    assert ended.state == "completed", ended
    assert lab.desk.runs.tally(run.id) == {"passed": run.items}
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(run.items, _tried_s(lab, ended), cpu, after.ru_maxrss)


def _tried_s(lab: Lab, run: ExperimentRun) -> float:
    last = max(item.created_at for item in lab.desk.runs.items(run.id))
    return (datetime.fromisoformat(last) - datetime.fromisoformat(run.started_at or "")).total_seconds()


@contextmanager
def folder() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory() as name, opened(Path(name), SOURCE) as lab:
        yield lab


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", nargs="*", type=int, default=[20, 1_000, 10_000])
    for items in parser.parse_args().items:
        for function in ("at_once", "with_messages"):
            with folder() as lab:
                one = measured(lab, lab.ready(items, component(function), 4))
                stored = os.path.getsize(lab.folder / ".evalscribe" / "store.db") / 1e6
            told = f"{one.cpu_s:.2f} s CPU, {one.ms:.2f} ms each, {one.wall_s:.2f} s of tries"
            print(f"{items} items {function}: {told}, {one.peak_kb / 1024:.0f} MB, {stored:.1f} MB stored", flush=True)
    with ScriptedServer(_late) as server:
        address = Component(name="address", kind="http", address=f"{server.url}/")
        for one in (component("slowly"), component("awaited"), address):
            _late_tries(one)


def _late(call: Call) -> Answer:
    return Answer(body=json.dumps({"answer": call.body["input"]}).encode(), delay_s=LATENCY_S)


def _late_tries(target: Component) -> None:
    with folder() as lab:
        one = measured(lab, lab.ready(LANES * ROUNDS, target, LANES))
    ideal = ROUNDS * LATENCY_S
    print(
        f"200 ms, {LANES} lanes, {target.name}: {one.wall_s:.2f} s, {one.wall_s / ideal:.3f} of the ideal", flush=True
    )


if __name__ == "__main__":
    main()
