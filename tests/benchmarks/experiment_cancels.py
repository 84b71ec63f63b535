"""Measure how long the processes of a run live after the run is cancelled, for targets that resist being stopped.

    python tests/benchmarks/experiment_cancels.py

Time is measured from the start of the command `experiments runs cancel`, and from the moment when the command has
changed the store. It ends when no process that the worker or a target started is alive. A target at an address starts
no process, so its time ends with the worker.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.experiment_lab import Lab, alive, component, descendants, opened
from evalscribe.experiments.control import start_worker
from evalscribe.experiments.results import report_run
from evalscribe.model.experiment import ExperimentRun
from evalscribe.model.score import ScoreQuery
from evalscribe.model.target import Component
from support.scripted_server import Answer, Call, ScriptedServer

SOURCE = """\
import os, pathlib, signal, subprocess, sys, time

HERE = pathlib.Path(__file__).parent

def noted(*pids):
    with (HERE / "pids").open("a") as file:
        file.write("".join(f"{pid}\\n" for pid in (os.getpid(), *pids)))

def begun(question):
    '''The first questions are answered; the others stay for ever.'''
    return int(question.split()[1]) < 4

def busy(question):
    if not begun(question):
        noted()
        while True:
            pass
    return {"answer": question}

async def hogging(question):
    return busy(question)

def helped(question):
    if not begun(question):
        noted(subprocess.Popen(["sleep", "1000"]).pid)
        noted(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid)
        time.sleep(1000)
    return {"answer": question}

if __name__ == "__main__":
    question = sys.stdin.read().strip('"')
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not begun(question):
        noted(subprocess.Popen(["sleep", "1000"]).pid)
        noted(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid)
        time.sleep(1000)
    print(question)
"""
KINDS = ("busy", "hogging", "helped", "deaf", "hanging")
LANES = 4
PATIENCE_S = 300


@dataclass(frozen=True)
class Cancelled:
    kind: str
    from_start_s: float
    """Seconds from the start of the command until no process was alive."""
    from_flag_s: float
    command_s: float
    state: str
    tries: int
    """Number of stored trials with scores."""
    gate: bool


def main() -> None:
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder, chdir(folder), opened(Path(folder), SOURCE) as lab:
            print(cancelled(lab, kind), flush=True)


def cancelled(lab: Lab, kind: str) -> Cancelled:
    """Start a run with such a target, and cancel it when every worker slot is stuck."""
    with ScriptedServer(_hanging) as server:
        run = lab.ready(20, _target(kind, server.url), LANES, ["json_valid"])
        start_worker(lab.workspace, run.id)
        _until(
            lambda: sum(lab.workspace.store.experiment_runs.tally(run.id).values()) == 4 and _stuck(lab, kind, server),
            lab,
            run,
        )
        worker = lab.worker(run)
        assert worker is not None
        pids = (descendants(worker) - {worker}) | set(_noted(lab)) or {worker}
        began, times = time.monotonic(), list[float]()
        watcher = threading.Thread(target=_watch, args=(pids, times))
        watcher.start()
        command = [sys.executable, "-m", "evalscribe", "experiments", "runs", "cancel", run.id]
        with subprocess.Popen(command, cwd=lab.folder, stdout=subprocess.DEVNULL) as process:
            _until(lambda: lab.now(run).cancelling or lab.now(run).terminal, lab, run)
            flagged = time.monotonic()
            process.wait()
            told = time.monotonic() - began
        watcher.join()
    return _as_left(lab, run, Cancelled(kind, times[0] - began, times[0] - flagged, told, "", 0, False))


def _as_left(lab: Lab, run: ExperimentRun, one: Cancelled) -> Cancelled:
    left = lab.now(run)
    gate = report_run(lab.workspace, left).gate
    scored = {score.run_item_id for score in lab.workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id))}
    return Cancelled(
        one.kind,
        one.from_start_s,
        one.from_flag_s,
        one.command_s,
        left.state,
        len(scored),
        gate is not None and gate.passed,
    )


def _target(kind: str, url: str) -> Component:
    if kind == "deaf":
        return Component(name=kind, kind="cmd", address=f"{sys.executable} suite.py")
    return Component(name=kind, kind="http", address=f"{url}/") if kind == "hanging" else component(kind)


def _hanging(call: Call) -> Answer:
    number = int(call.body["input"].split()[1])
    return Answer(body=json.dumps(call.body["input"]).encode(), delay_s=0 if number < 4 else 1000)


def _stuck(lab: Lab, kind: str, server: ScriptedServer) -> bool:
    """Return whether every slot waits. A target that blocks the event loop stops all slots, so one is enough."""
    wanted = {"busy": LANES, "hogging": 1, "helped": 4 * LANES, "deaf": 4 * LANES}
    return len(server.calls) == 4 + LANES if kind == "hanging" else len(_noted(lab)) >= wanted[kind]


def _noted(lab: Lab) -> list[int]:
    path = lab.folder / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def _watch(pids: set[int], times: list[float]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    times.append(time.monotonic())


def _until(true: Callable[[], bool], lab: Lab, run: ExperimentRun) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, lab.now(run)
        time.sleep(0.01)


if __name__ == "__main__":
    main()
