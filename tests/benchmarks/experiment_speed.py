"""What a try of an experiment costs beside its target: CPU of all processes, memory, and time at a latency.

    python tests/benchmarks/experiment_speed.py [ITEMS ...]

Each size runs over a component in Python that answers at once, with three scorers, every item stored before its lane
takes the next and archived at the end; then 32 lanes over a component that takes 200 ms. Figures of a machine with two
cores are in the commit that changed them.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.app.experiments.create import NewExperiment, created
from evalscribe.app.experiments.launch import NewRun, launched
from evalscribe.dataset import Dataset, Item
from evalscribe.deployment import Component, Deployment
from evalscribe.experiment import ComponentTarget, Config, ExperimentRun
from evalscribe.judging.scorers import binding_of
from evalscribe.settings import Options, load
from evalscribe.wiring.experiments import open_desk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalscribe.app.experiments.desk import ExperimentDesk

COMPONENT = """\
import time

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
"""
WORDS = ("the", "flight", "was", "booked", "for", "two", "people", "and", "then", "changed", "because", "one", "had")
SCORERS = (
    '{"name": "exact_match", "config": {"output_field": "output.answer", "expected_field": "expected.answer"}}',
    '{"name": "contains", "config": {"pattern": "question"}}',
    '{"name": "json_valid"}',
)
LATENCY_S = 0.2


@dataclass(frozen=True)
class Measured:
    items: int
    wall_s: float
    cpu_s: float
    """Of the worker and of its children."""
    peak_kb: int
    """Of the largest of them."""


@contextmanager
def workspace(folder: Path) -> "Iterator[ExperimentDesk]":
    (folder / "evalscribe.toml").touch()
    (folder / "speedy.py").write_text(COMPONENT)
    with open_desk(load(Options(), folder, {})) as desk:
        yield desk


def ready(desk: "ExperimentDesk", folder: Path, items: int, function: str, lanes: int) -> ExperimentRun:
    """A queued run over so many items."""
    name = f"{function}-{items}"
    desk.datasets.add(Dataset(id=f"ds-{name}", name=name, created_at=desk.now()))
    for start in range(0, items, 500):
        questions = [_question(n) for n in range(start, min(items, start + 500))]
        desk.datasets.put(
            f"ds-{name}", [Item(key=q.split()[1], input=q, expected_output={"answer": q}) for q in questions]
        )
    version = desk.datasets.publish(f"ds-{name}", desk.now())
    component = Component(name=function, kind="python", address=f"speedy:{function}")
    deployment = Deployment(id=f"dep-{name}", components=(component,), folder=str(folder), created_at=desk.now())
    desk.definitions.add_deployment(deployment)
    experiment, _ = created(
        desk,
        NewExperiment(
            name=name,
            target=ComponentTarget(deployment_id=deployment.id, component=component),
            dataset_id=version.dataset_id,
            dataset_version_id=version.id,
            bindings=tuple(map(binding_of, SCORERS)),
            config=Config(concurrency=lanes),
        ),
    )
    return launched(desk, experiment, NewRun())


def _question(n: int) -> str:
    """Half a kilobyte."""
    return f"question {n} " + " ".join(WORDS[(n + word) % len(WORDS)] for word in range(100))


def measured(desk: "ExperimentDesk", folder: Path, run: ExperimentRun) -> Measured:
    """The run, in a process as `experiments run` starts it."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "evalscribe", "experiments", "runs", "work", run.id]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = desk.runs.run(run.id)
    assert ended is not None
    assert ended.state == "completed", ended
    assert desk.runs.tally(run.id) == {"passed": run.items}
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(run.items, wall, cpu, after.ru_maxrss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", nargs="*", type=int, default=[20, 1_000, 10_000])
    for items in parser.parse_args().items:
        for function in ("at_once", "with_messages"):
            with tempfile.TemporaryDirectory() as name, workspace(Path(name)) as desk:
                one = measured(desk, Path(name), ready(desk, Path(name), items, function, 4))
                told = f"{one.cpu_s:.2f} s CPU, {one.cpu_s / items * 1000:.2f} ms each, {one.wall_s:.2f} s"
                stored = os.path.getsize(Path(name) / ".evalscribe" / "store.db") / 1e6
                print(
                    f"{items} items {function}: {told}, {one.peak_kb / 1024:.0f} MB, {stored:.1f} MB stored", flush=True
                )
    with tempfile.TemporaryDirectory() as name, workspace(Path(name)) as desk:
        run = ready(desk, Path(name), 1600, "slowly", 32)
        one = measured(desk, Path(name), run)
        ideal = 1600 / 32 * LATENCY_S
        tries = tried_s(desk, run)
        print(f"200 ms, 32 lanes: {tries:.2f} s of tries, {tries / ideal:.2f} of the ideal; {one.wall_s:.2f} s in all")


def tried_s(desk: "ExperimentDesk", run: ExperimentRun) -> float:
    """From the worker's beginning to the last try."""
    began = desk.runs.run(run.id)
    assert began is not None
    last = max(item.created_at for item in desk.runs.items(run.id))
    return (datetime.fromisoformat(last) - datetime.fromisoformat(began.started_at or "")).total_seconds()


if __name__ == "__main__":
    main()
