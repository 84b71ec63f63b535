"""Measure what a run loses and repeats when its processes are killed at random moments.

    python tests/benchmarks/experiment_kills.py [ROUNDS]        default: 30

In turn, the worker, the process with the user's Python code, or all processes are killed, and the run is resumed. The
component and a user's scorer record each call with its trial before they answer. A model on loopback counts how often
each question is asked. Work that was stored before a kill must not be repeated.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.experiment_lab import Lab, alive, component, descendants, kill, opened
from evalscribe.experiments.control import launch_run, plan_run, resume_run, start_worker
from evalscribe.experiments.scorers.stored import create_scorer, function_spec
from evalscribe.model.experiment import ExperimentRun
from evalscribe.model.score import ScoreQuery
from support.messages_server import Answer, Call, MessagesServer, says

LANES = 4
ITEMS = 400
SOURCE = """\
import pathlib, time
from evalscribe import ScoreResult, scorer

HERE = pathlib.Path(__file__).parent

def noted(file, words):
    with (HERE / file).open("a") as calls:
        calls.write(words + "\\n")

def agent(question, context):
    noted("tries", context.idempotency_key)
    time.sleep(0.015)
    return {"answer": question}

async def waiting(question, context):
    noted("tries", context.idempotency_key)
    import asyncio
    await asyncio.sleep(0.015)
    return {"answer": question}

@scorer
def marked(request):
    noted("marks", " ".join(request.output["answer"].split()[:2]))
    return True
"""
WAYS = ("worker", "host", "all")
JUDGE = '{"name": "llm_judge", "config": {"criteria": "It answers.", "model": "anthropic/claude-haiku-5-5"}}'
SCORES = 3
"""Number of scores of each trial."""
PATIENCE_S = 300


@dataclass
class Losses:
    """Losses and repeated work, counted over several rounds."""

    kills: Counter[str] = field(default_factory=Counter)
    tries: int = 0
    """Number of trials that are stored at the end."""
    repeated: int = 0
    """Number of extra calls of the component, beyond one for each trial."""
    rescored: int = 0
    """Number of extra calls of the scorer, beyond one for each trial."""
    asked_again: int = 0
    """Number of extra questions to the model, beyond one for each trial."""
    wrong: list[str] = field(default_factory=list)
    """Descriptions of errors that must never happen."""
    longest_s: float = 0.0
    """Maximum seconds from a kill of only the worker until all of its processes have ended."""


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    for function in ("agent", "waiting"):
        with tempfile.TemporaryDirectory() as folder, judged(Path(folder)) as killing:
            killing.go(function, rounds // 2, ITEMS)
        print(f"{function}: {killing.losses}", flush=True)


@contextmanager
def judged(folder: Path, latency_s: float = 0.01) -> Iterator["Killing"]:
    """Create a folder with a user's scorer, and start a model on loopback."""
    with MessagesServer(_label, latency_s) as server, chdir(folder):
        os.environ |= {"ANTHROPIC_API_KEY": "sk-ant-test-0000", "ANTHROPIC_BASE_URL": server.url}
        with opened(folder, SOURCE) as lab:
            spec, told = asyncio.run(function_spec("marked", "python:suite:marked", folder, {}))
            create_scorer(lab.workspace.store.experiments, spec, lab.workspace.now(), told, str(folder))
            yield Killing(lab, server)


def _label(_call: Call) -> Answer:
    return says(f"<response>{json.dumps({'explanation': 'It does.', 'label': 'pass'})}</response>")


class Killing:
    """Kills processes in rounds. Whenever a run ends, the next one is started."""

    def __init__(self, lab: Lab, server: MessagesServer) -> None:
        self.losses = Losses()
        self._lab = lab
        self._server = server
        self._chance = random.Random(6)

    def go(self, function: str, rounds: int, items: int, ways: Sequence[str] = WAYS) -> None:
        run = self._lab.ready(items, component(function), LANES, ["json_valid", JUDGE], ["marked"])
        start_worker(self._lab.workspace, run.id)
        for number in range(rounds):
            while True:
                self._at_work(run)
                time.sleep(self._chance.uniform(0, 0.5))
                if self._lab.now(run).terminal:
                    self._settle(run)
                    run = self._another(run)
                    self._at_work(run)
                if self._kill(run, ways[number % len(ways)]):
                    break
        self._settle(run)

    def _another(self, run: ExperimentRun) -> ExperimentRun:
        experiment = self._lab.workspace.store.experiments.experiment(run.experiment_id)
        assert experiment is not None
        another = launch_run(self._lab.workspace, plan_run(self._lab.workspace, experiment))
        start_worker(self._lab.workspace, another.id)
        return another

    def _kill(self, run: ExperimentRun, way: str) -> bool:
        """Kill processes of a run. Return False if there was nothing to kill, for example because the run has ended."""
        worker = self._lab.worker(run)
        if worker is None or self._lab.now(run).terminal:
            return False
        all_of_it = descendants(worker)
        kill({"worker": {worker}, "host": all_of_it - {worker}, "all": all_of_it}[way])
        self.losses.kills[way] += 1
        if way == "host":
            return True
        self._gone(all_of_it, run)
        before, called = self._lab.workspace.store.experiment_runs.done(run.id), len(self._noted("tries"))
        if not self._lab.now(run).terminal:
            start_worker(self._lab.workspace, resume_run(self._lab.workspace, self._lab.now(run), None).id)
            self._at_work(run)
        twice = {f"{run.id}/{key}/{n}" for key, n in before} & set(self._noted("tries")[called:])
        self.losses.wrong += [f"{one} was stored and is tried again" for one in sorted(twice)]
        return True

    def _gone(self, pids: set[int], run: ExperimentRun) -> None:
        began = time.monotonic()
        while alive(pids) or not self._free(run):
            if time.monotonic() - began > PATIENCE_S:
                self.losses.wrong.append(f"processes outlive their worker: {alive(pids)}")
                return
            time.sleep(0.005)
        self.losses.longest_s = max(self.losses.longest_s, time.monotonic() - began)

    def _free(self, run: ExperimentRun) -> bool:
        """Return whether no worker holds the run. After a kill, the kernel needs time to end a process's threads."""
        with self._lab.workspace.store.experiment_runs.claim(run.id) as mine:
            return mine

    def _at_work(self, run: ExperimentRun) -> None:
        """Wait until a worker has stored a new trial, or the run has ended."""
        before = sum(self._lab.workspace.store.experiment_runs.tally(run.id).values())
        self._until(
            lambda: (
                self._lab.now(run).terminal
                or sum(self._lab.workspace.store.experiment_runs.tally(run.id).values()) > before
            ),
            run,
        )

    def _until(self, true: Callable[[], bool], run: ExperimentRun) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, self._lab.now(run)
            time.sleep(0.01)

    def _settle(self, run: ExperimentRun) -> None:
        """Wait for the end of a run. Check that nothing is missing, and count repeated work."""
        self._until(lambda: self._lab.now(run).terminal, run)
        workspace, losses, now = self._lab.workspace, self.losses, self._lab.now(run)
        scores = Counter(
            score.run_item_id for score in workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id))
        )
        records = sum(1 for _ in workspace.store.runs.records(run.id))
        whole = (
            now.state,
            now.archived,
            dict(workspace.store.experiment_runs.tally(run.id)),
            set(scores.values()),
            len(scores),
            records,
        )
        wanted = ("completed", True, {"passed": run.tries}, {SCORES}, run.tries, run.tries)
        losses.wrong += [] if whole == wanted else [f"{whole} in place of {wanted}: {now.reason}"]
        losses.tries += run.tries
        tried = [one for one in self._noted("tries") if one.startswith(run.id)]
        losses.repeated += len(tried) - len(set(tried))
        losses.rescored = len(self._noted("marks")) - losses.tries
        losses.asked_again = len(self._server.calls) - losses.tries

    def _noted(self, file: str) -> list[str]:
        path = self._lab.folder / file
        return path.read_text().splitlines() if path.exists() else []


if __name__ == "__main__":
    main()
