"""Create experiments for benchmarks without commands. Their runs are processed by workers in other processes."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from evalscribe.experiments.control import launch_run, plan_run
from evalscribe.experiments.definitions import NewExperiment, create_experiment
from evalscribe.experiments.scorers.stored import attach_scorers
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.experiment import ComponentTarget, ExperimentConfig, ExperimentRun
from evalscribe.model.target import Component, Deployment
from evalscribe.workspace import Workspace

WORDS = ("the", "flight", "was", "booked", "for", "two", "people", "and", "then", "changed", "because", "one", "had")
SCORERS = (
    '{"name": "exact_match", "config": {"output_field": "output.answer", "expected_field": "expected.answer"}}',
    '{"name": "contains", "config": {"pattern": "question"}}',
    "json_valid",
)
PAGE = 500


@dataclass(frozen=True)
class Lab:
    """A user's folder with a store and its contents."""

    folder: Path
    workspace: Workspace

    def ready(
        self,
        items: int,
        component: Component,
        lanes: int,
        scorers: Sequence[str] = SCORERS,
        scorer_ids: Sequence[str] = (),
        **config: object,
    ) -> ExperimentRun:
        """Create a queued run with this number of items."""
        workspace, name = self.workspace, f"{component.name}-{items}"
        self._fill(name, items)
        version = workspace.store.datasets.publish(f"ds-{name}", workspace.now())
        folder, now = str(self.folder), workspace.now()
        deployment = Deployment(id=f"dep-{name}", components=(component,), folder=folder, created_at=now)
        workspace.store.experiments.add_deployment(deployment)
        wanted = NewExperiment(
            name=name,
            target=ComponentTarget(deployment_id=deployment.id, component=component),
            dataset_id=version.dataset_id,
            dataset_version_id=version.id,
            bindings=attach_scorers(workspace, scorers, scorer_ids),
            config=ExperimentConfig.model_validate({"concurrency": lanes, **config}),
        )
        return launch_run(workspace, plan_run(workspace, create_experiment(workspace, wanted)[0]))

    def _fill(self, name: str, items: int) -> None:
        datasets = self.workspace.store.datasets
        datasets.add(Dataset(id=f"ds-{name}", name=name, created_at=self.workspace.now()))
        for start in range(0, items, PAGE):
            asked = [(f"k{n}", question(n)) for n in range(start, min(items, start + PAGE))]
            datasets.put(f"ds-{name}", [Item(key=key, input=q, expected_output={"answer": q}) for key, q in asked])

    def now(self, run: ExperimentRun) -> ExperimentRun:
        """Return the current state of the run."""
        found = self.workspace.store.experiment_runs.run(run.id)
        assert found is not None
        return found

    def worker(self, run: ExperimentRun) -> int | None:
        """Return the id of the process that works on the run; None if there is none."""
        name = self.now(run).worker or ""
        return int(name.rpartition(":")[2]) if ":" in name else None


@contextmanager
def opened(folder: Path, source: str) -> Iterator[Lab]:
    """Open a workspace in the folder. `source` is the code of the module `suite`, which contains the components."""
    (folder / "evalscribe.toml").touch()
    (folder / "suite.py").write_text(source)
    with Workspace(folder=folder) as workspace:
        yield Lab(folder, workspace)


def component(function: str) -> Component:
    return Component(name=function, kind="python", address=f"suite:{function}")


def question(n: int) -> str:
    """Return a question of about half a kilobyte."""
    return f"question {n} " + " ".join(WORDS[(n + word) % len(WORDS)] for word in range(100))


def descendants(pid: int) -> set[int]:
    """Return the ids of a process and of its descendants. A process whose parent has ended is not found."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            children.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found, left = set[int](), [pid]
    while left:
        one = left.pop()
        found.add(one)
        left += children.get(one, ())
    return found


def alive(pids: set[int]) -> set[int]:
    """Return those processes that have not ended."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.add(pid)
    return found


def kill(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
