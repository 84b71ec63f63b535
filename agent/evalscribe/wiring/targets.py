"""Which target an experiment's version means, and whether a component works."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import JsonValue

from evalscribe import ports
from evalscribe.deployment import Component, Deployment, SourceState
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.experiment import ComponentTarget, ExperimentVersion, JudgeTarget, PromptTarget
from evalscribe.settings import Settings
from evalscribe.target import TargetCall, TargetFailed, TargetReply

STAGE = "target"
"""Of the calls of models that a prompt makes."""
SMOKE_S = 300.0
"""Within which a component has to answer when it is tried."""
REACH_S = 10.0


@asynccontextmanager
async def open_target(
    found: Settings,
    version: ExperimentVersion,
    deployment: Deployment | None,
    models: ports.Models,
    concurrency: int,
) -> AsyncIterator[ports.Target]:
    """The target, closed at the end with all that it started. `deployment`: the build that runs, of a component.

    Raises `EvalscribeError` where it cannot be asked.
    """
    if isinstance(version.target, JudgeTarget):
        from evalscribe.wiring.judge_target import open_judge_target

        async with open_judge_target(found, version.target, models) as judge:
            yield judge
        return
    match version.target:
        case PromptTarget():
            from evalscribe.evaluate.prompt_target import PromptedModel

            prompt = version.target.version
            target: ports.Target = PromptedModel(prompt, models.open(prompt.model, STAGE))
        case ComponentTarget():
            target = await component_target(*_build(version.target, deployment), concurrency)
    try:
        yield target
    finally:
        await target.close()


async def component_target(component: Component, folder: Path, concurrency: int) -> ports.Target:
    """One component of a build in `folder`; what takes long to start is on its way.

    Raises `UsageError` for what is seen without trying.
    """
    match component.kind:
        case "python":
            from evalscribe.targets.host import Host
            from evalscribe.targets.python import PythonTarget

            target = PythonTarget(component.address, Host(folder, concurrency))
            await target.begin()
            return target
        case "http":
            from evalscribe.targets.http import HttpTarget, header_values

            return HttpTarget(component.address, header_values(component.headers), concurrency)
        case "cmd":
            from evalscribe.targets.cmd import CommandTarget

            return CommandTarget(component.address, folder)


def _build(target: ComponentTarget, deployment: Deployment | None) -> tuple[Component, Path]:
    name = target.component.name
    if deployment is None:
        raise NotFoundError(f"there is no deployment {target.deployment_id}, whose component {name} is to be run")
    component = deployment.component(name)
    if component is None:
        there = ", ".join(one.name for one in deployment.components)
        raise UsageError(f"deployment {deployment.id} has no component {name}; it has {there}")
    folder = Path(deployment.folder)
    if component.kind != "http" and not folder.is_dir():
        raise NotFoundError(f"{folder}, the folder of deployment {deployment.id}, is not there any more")
    return component, folder


class Components:
    """`app.deployments.Probe` of this machine."""

    async def check(self, component: Component, folder: Path) -> str:
        match component.kind:
            case "python":
                return await _imported(component.address, folder)
            case "http":
                return await _reached(component)
            case "cmd":
                from evalscribe.targets.cmd import found_program, split

                return found_program(split(component.address), folder)

    async def call(self, component: Component, folder: Path, value: JsonValue) -> TargetReply | TargetFailed:
        target = await component_target(component, folder, 1)
        call = TargetCall(run_id="smoke", item_key="smoke", repetition=1, input=value, timeout_s=SMOKE_S)
        try:
            return await target.answer(call)
        finally:
            await target.close()


async def _imported(address: str, folder: Path) -> str:
    from evalscribe.targets.host import Host

    host = Host(folder, 1)
    try:
        described = await host.check(address, "component")
    finally:
        await host.close()
    return f"imported, takes ({', '.join(described.parameters)})"


async def _reached(component: Component) -> str:
    from evalscribe.targets.http import HttpTarget, header_values

    target = HttpTarget(component.address, header_values(component.headers), 1)
    try:
        return await target.reachable(REACH_S)
    finally:
        await target.close()


def source_state(found: Settings, folder: Path) -> SourceState:
    """What is in the folder, but for reports and the store."""
    from evalscribe.forge.source_state import source_state as state

    return state(folder, (found.reports.value, found.store))
