"""Experiments in a real store, with targets and scorers that tests define."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from evalscribe.experiments.control import launch_run, plan_run
from evalscribe.experiments.definitions import NewExperiment, create_experiment
from evalscribe.experiments.worker import TrialTools, work_on_run
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.experiment import ComponentTarget, Experiment, ExperimentConfig, ExperimentRun, ExperimentVersion
from evalscribe.model.score import Binding, ScoreResult, ScorerRequest, ScorerRunner, ScorerSpec
from evalscribe.model.target import Component, Deployment, TargetCall, TargetFailure, TargetReply
from evalscribe.workspace import Workspace

NOW = "2026-11-21T12:00:00.000+00:00"
COMPONENT = Component(name="agent", kind="python", address="pkg:fn", provider="example", model="model-1")
TargetResult = TargetReply | TargetFailure
Answer = Callable[[TargetCall], TargetResult | Awaitable[TargetResult]]


class ScriptedTarget:
    """A `Target` that answers by a function and records its calls."""

    def __init__(self, answer: Answer, latency_s: float = 0.0) -> None:
        self.asked: list[str] = []
        self.begun = asyncio.Event()
        self.closed = 0
        self.most = 0
        self._under_way = 0
        self._answer = answer
        self._latency_s = latency_s

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        self.asked.append(call.idempotency_key.partition("/")[2])
        self.begun.set()
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            await asyncio.sleep(self._latency_s)
            given = self._answer(call)
            return await given if isinstance(given, Awaitable) else given
        finally:
            self._under_way -= 1

    async def close(self) -> None:
        self.closed += 1


class EqualityScorer:
    """A `ScorerRunner` that checks whether the output equals the expected output. It breaks on the output `break`."""

    def __init__(self, name: str = "equal", depends_on: tuple[str, ...] = ()) -> None:
        self.name = name
        self.depends_on = depends_on
        self.requests: list[ScorerRequest] = []

    async def score(self, request: ScorerRequest) -> ScoreResult:
        self.requests.append(request)
        if request.output == "break":
            return ScoreResult(status="error", error_type="scorer_error", explanation="it broke")
        passed = request.output == request.expected
        return ScoreResult(value=float(passed), passed=passed, explanation=f"{request.output} is what came")

    async def close(self) -> None:
        return None


class FixedWorkspace(Workspace):
    """A workspace with a fixed time, and with its store in a folder or on a server."""

    def __init__(self, place: Path | str) -> None:
        if isinstance(place, Path):
            super().__init__(folder=place, environ={})
        else:
            super().__init__(environ={"EVALSCRIBE_STORE_URL": place})

    def now(self) -> str:
        return NOW


class ExperimentLab:
    """An experiment on the items `k0`, `k1` and so on. The expected output of each item is its key."""

    def __init__(self, place: Path | str, items: int = 4, **config: object) -> None:
        self.workspace = FixedWorkspace(place)
        self.workspace.store.datasets.add(Dataset(id="ds-1", name="letters", created_at=NOW))
        made = [Item(key=f"k{n}", input={"n": n}, expected_output=f"k{n}", split="dev") for n in range(items)]
        self.workspace.store.datasets.put("ds-1", made)
        version = self.workspace.store.datasets.publish("ds-1", NOW)
        self.workspace.store.experiments.add_deployment(deployment("dep-1", "base"))
        self.wanted = NewExperiment(
            name="quality",
            target=ComponentTarget(deployment_id="dep-1", component=COMPONENT),
            dataset_id="ds-1",
            dataset_version_id=version.id,
            bindings=(binding("equal"),),
            config=ExperimentConfig.model_validate(config),
        )
        self.experiment, self.version = create_experiment(self.workspace, self.wanted)

    def close(self) -> None:
        self.workspace.close()

    def run(self, experiment: Experiment | None = None, **wanted: Any) -> ExperimentRun:
        return launch_run(self.workspace, plan_run(self.workspace, experiment or self.experiment, **wanted))

    async def work(
        self, run: ExperimentRun, target: ScriptedTarget, scorers: Sequence[ScorerRunner] = (EqualityScorer(),)
    ) -> ExperimentRun:
        return await work_on_run(self.workspace, run.id, worker="here:1", tools=tools(target, scorers))

    def verdicts(self, run: ExperimentRun) -> Mapping[str, str]:
        return {
            f"{one.item_key}/{one.repetition}": one.verdict
            for one in self.workspace.store.experiment_runs.items(run.id)
        }


def tools(target: ScriptedTarget, scorers: Sequence[ScorerRunner]):  # type: ignore[no-untyped-def]
    @asynccontextmanager
    async def opened(
        _workspace: Workspace, _run: ExperimentRun, _version: ExperimentVersion, _left: float | None
    ) -> AsyncIterator[TrialTools]:
        try:
            yield TrialTools(target, tuple(scorers))
        finally:
            await target.close()

    return opened


def deployment(id: str, name: str, component: Component = COMPONENT) -> Deployment:
    return Deployment(id=id, name=name, components=(component,), folder="/nowhere", created_at=NOW)


def binding(name: str, *, required: bool = True, depends_on: tuple[str, ...] = ()) -> Binding:
    return Binding(spec=ScorerSpec(name=name, scorer="exact_match", depends_on=depends_on), required=required)


def answer_key(call: TargetCall) -> TargetReply:
    """Answer correctly, with the key of the item."""
    return TargetReply(output=call.item_key)
