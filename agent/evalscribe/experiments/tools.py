"""Open the target, the scorers and the models of a run."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.experiments.deployments import component_target
from evalscribe.experiments.judge_target import judge_target
from evalscribe.experiments.python_host import PythonHost, describe
from evalscribe.experiments.scorers.catalogue import order_bindings, scorer_runner
from evalscribe.experiments.scorers.runners import CustomScorer, ModelScorer
from evalscribe.experiments.scorers.stored import PYTHON
from evalscribe.experiments.targets import PromptModelTarget
from evalscribe.experiments.trials import BudgetedModels
from evalscribe.judging.judges import JudgeMaker, MadeJudge
from evalscribe.llm.budget import Budget
from evalscribe.model.experiment import ComponentTarget, ExperimentRun, ExperimentVersion, JudgeTarget
from evalscribe.model.experiment_storage import ScorerRunner, Target
from evalscribe.model.protocols import Models
from evalscribe.model.score import CUSTOM, Binding
from evalscribe.model.target import Component, Deployment
from evalscribe.workspace import Workspace

STAGE = "target"
"""Stage of a prompt target's model calls."""


class TrialTools(NamedTuple):
    target: Target
    scorers: tuple[ScorerRunner, ...]
    """Scorers in topological order of their dependencies."""


@asynccontextmanager
async def open_tools(
    workspace: Workspace, run: ExperimentRun, version: ExperimentVersion, left_usd: float | None
) -> AsyncIterator[TrialTools]:
    """Open the target and the scorers of a run, and close them at the end.

    Args:
        workspace: Workspace of the definitions.
        run: The run.
        version: The run's version of the experiment.
        left_usd: Remaining budget for models in US dollars; None for the limit of the settings.

    Raises:
        EvalscribeError: One of them cannot be used.
    """
    async with open_models(workspace, left_usd) as models, AsyncExitStack() as opened:
        deployment = workspace.store.experiments.deployment(run.deployment_id) if run.deployment_id else None
        target = await open_target(workspace, version, deployment, models, run.concurrency)
        opened.push_async_callback(target.close)
        scorers = await opened.enter_async_context(open_scorers(workspace, version, models, run.concurrency))
        yield TrialTools(target, tuple(scorers))


@asynccontextmanager
async def open_models(workspace: Workspace, left_usd: float | None = None) -> AsyncIterator[Models]:
    """Open models that spend the rest of a run's budget; None for the limit of the settings."""
    settings = workspace.settings
    budget = Budget(usd=settings.budget.value if left_usd is None else left_usd, tokens=settings.max_tokens.value)
    models = BudgetedModels(workspace.open_models(budget))
    try:
        yield models
    finally:
        await models.close()


async def open_target(
    workspace: Workspace, version: ExperimentVersion, deployment: Deployment | None, models: Models, concurrency: int
) -> Target:
    """Open the target of a version. The caller closes it with its processes.

    Args:
        workspace: Workspace whose store has cached judge results.
        version: Version of the experiment.
        deployment: Build of a component target.
        models: Models that prompts and judges call.
        concurrency: Maximum concurrent calls.

    Raises:
        EvalscribeError: The target cannot be opened.
    """
    target = version.target
    if isinstance(target, JudgeTarget):
        return judge_target(workspace, target, models)
    if isinstance(target, ComponentTarget):
        return await component_target(*_build(target, deployment), concurrency)
    return PromptModelTarget(target.version, models.open(target.version.model, STAGE))


def _build(target: ComponentTarget, deployment: Deployment | None) -> tuple[Component, Path]:
    name = target.component.name
    if deployment is None:
        raise NotFoundError(f"deployment {target.deployment_id} not found; the run needs its component {name}")
    component = deployment.component(name)
    if component is None:
        there = ", ".join(one.name for one in deployment.components)
        raise UsageError(f"deployment {deployment.id} has no component {name}; its components: {there}")
    folder = Path(deployment.folder)
    if component.kind != "http" and not folder.is_dir():
        raise NotFoundError(f"{folder}, the folder of deployment {deployment.id}, no longer exists")
    return component, folder


@asynccontextmanager
async def open_scorers(
    workspace: Workspace, version: ExperimentVersion, models: Models, concurrency: int
) -> AsyncIterator[Sequence[ScorerRunner]]:
    """Open the scorers of a version in topological order of their dependencies.

    Raises:
        UsageError: The source of a scorer has changed since it was created.
        AccessError: A model has no key.
    """
    folders = {one.id: one.folder for one in workspace.store.experiments.scorers()}
    async with AsyncExitStack() as opened:
        bindings = order_bindings(version.bindings)
        makers = _Makers(workspace, models, opened, version.config.timeout_s, concurrency)
        await makers.check([one for one in bindings if one.spec.scorer == CUSTOM], folders)
        yield tuple(makers.runner(binding, folders) for binding in bindings)


class _Makers:
    """Builder of runners that opens shared resources once and closes them at the end."""

    def __init__(
        self, workspace: Workspace, models: Models, opened: AsyncExitStack, timeout_s: float, concurrency: int
    ) -> None:
        self._workspace = workspace
        self._models = models
        self._opened = opened
        self._timeout_s = timeout_s
        self._concurrency = concurrency
        self._hosts: dict[str, PythonHost] = {}
        self._maker: tuple[JudgeMaker, MadeJudge] | None = None

    async def check(self, bindings: Sequence[Binding], folders: Mapping[str, str]) -> None:
        """Check that every function exists and is unchanged."""
        checks = [_check(binding, _folder(binding, folders)) for binding in bindings]
        failed = [one for one in await asyncio.gather(*checks, return_exceptions=True) if one is not None]
        if failed:
            raise failed[0]

    def runner(self, binding: Binding, folders: Mapping[str, str]) -> ScorerRunner:
        spec = binding.spec
        if spec.scorer == CUSTOM:
            return CustomScorer(spec, self._host(_folder(binding, folders)), self._timeout_s)
        if spec.rubric is None:
            return scorer_runner(spec)
        maker, made = self._judges()
        return ModelScorer(spec, maker.by_model(spec.rubric, spec.model), made.knew)

    def _host(self, folder: str) -> PythonHost:
        if folder not in self._hosts:
            self._hosts[folder] = PythonHost(Path(folder), self._concurrency)
            self._opened.push_async_callback(self._hosts[folder].close)
        return self._hosts[folder]

    def _judges(self) -> tuple[JudgeMaker, MadeJudge]:
        if self._maker is None:
            made = MadeJudge(self._workspace.store.collections)
            self._maker = JudgeMaker(self._models, self._workspace.prompts, made), made
        return self._maker


def _folder(binding: Binding, folders: Mapping[str, str]) -> str:
    folder = folders.get(binding.scorer_id or "")
    if folder is None:
        raise UsageError(
            f"scorer {binding.spec.name} no longer exists: create it again with `evalscribe scorers create`"
        )
    return folder


async def _check(binding: Binding, folder: str) -> None:
    spec = binding.spec
    described = await describe(Path(folder), spec.address or "", "scorer")
    if described.code == spec.code:
        return
    raise UsageError(
        f"scorer {spec.name}: the source in {folder} has changed since its version {spec.id} was created.\nCreate its "
        f"next version with evalscribe scorers create --name {spec.name} --function {PYTHON}{spec.address} --folder "
        f"{folder}, and attach it and the other scorers again with evalscribe experiments update … --scorer-id "
        f"{spec.name}"
    )
