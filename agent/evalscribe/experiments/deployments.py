"""Record builds of components, and check that the components can be used."""

import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from evalscribe.errors import DataError, UsageError
from evalscribe.experiments.http_target import HttpTarget, header_values
from evalscribe.experiments.python_host import BrokenCodeError, PythonHost, PythonTarget, describe
from evalscribe.experiments.targets import CommandTarget, find_program, split_command
from evalscribe.git.repository import source_state
from evalscribe.ids import Frozen
from evalscribe.model.target import (
    Component,
    ComponentKind,
    ComponentType,
    Deployment,
    Target,
    TargetCall,
    TargetFailure,
    TargetReply,
)
from evalscribe.redaction.redact import require_no_secret
from evalscribe.store.lookup import find_stored
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.definitions import ExperimentStore

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}")
# `[^\W\d]` matches the characters with which a Python name can begin: a letter of any script or an underscore.
_PYTHON = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
# The first part has the characters that RFC 9110 permits in the name of a header.
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+=[A-Za-z_][A-Za-z0-9_]*")
FORMS = "NAME=python:package.module:function, NAME=http(s)://… or NAME=cmd:…"
_LOG_SHOWN = 2000
SMOKE_S = 300.0
"""Maximum seconds that a component can take to answer a smoke test."""
REACH_S = 10.0


class ComponentCheck(Frozen):
    """Result of checking a component."""

    component: str
    message: str
    reply: TargetReply | None = None
    """Reply to the smoke test's input; None if the component was not called."""


class CheckedBuild(Frozen):
    deployment: Deployment
    new: bool
    """False if the same build of the same components is already recorded."""
    checks: tuple[ComponentCheck, ...]


async def check_build(
    workspace: Workspace,
    components: tuple[Component, ...],
    *,
    folder: Path,
    name: str = "",
    smoke: bool = False,
    smoke_input: JsonValue = None,
    broken: bool = False,
) -> CheckedBuild:
    """Check each component and return the build, without recording it.

    Args:
        workspace: Workspace to record the build in later.
        components: At least one component; names must be unique.
        folder: Folder to import Python from and run commands in.
        name: Name of the build; empty for none.
        smoke: Whether to call each component once, with `smoke_input`.
        smoke_input: Any JSON value.
        broken: Whether to accept the build even if its code cannot be imported. Runs of such a build report the error.

    Raises:
        UsageError: A component cannot be used, or the name is invalid.
        DataError: A component fails on the smoke test's input.
    """
    folder = _validate_components(components, folder, name)
    try:
        checks = tuple(
            [await _check_component(component, folder, smoke_input, smoke=smoke) for component in components]
        )
    except BrokenCodeError:
        if not broken:
            raise
        checks = ()
    deployment = _build(workspace, name, components, folder)
    new = workspace.store.experiments.deployment(deployment.id) is None
    return CheckedBuild(deployment=deployment, new=new, checks=checks)


def record_build(workspace: Workspace, checked: CheckedBuild) -> CheckedBuild:
    """Store a checked build, unless the store already has the build. Return `checked`."""
    if checked.new:
        workspace.store.experiments.add_deployment(checked.deployment)
    return checked


def current_build(workspace: Workspace, deployment: Deployment, component: Component) -> Deployment:
    """Return the build that a call of the component would run now. The build is not stored.

    The result is `deployment` itself if the source in its folder is unchanged, if the folder no longer exists, or if
    the component is an HTTP address.
    """
    folder = Path(deployment.folder)
    if component.kind == "http" or not folder.is_dir():
        return deployment
    current = _build(workspace, deployment.name, deployment.components, folder)
    return deployment if current.id == deployment.id else current


def _build(workspace: Workspace, name: str, components: tuple[Component, ...], folder: Path) -> Deployment:
    settings = workspace.settings
    deployment = Deployment(
        id="",
        name=name,
        components=components,
        folder=str(folder),
        # These folders change with every run, but such a change does not make a new build.
        **source_state(folder, (settings.reports.value, settings.store)).model_dump(),
        python=platform.python_version(),
        created_at=workspace.now(),
    )
    return deployment.model_copy(update={"id": deployment.content})


async def component_target(component: Component, folder: Path, concurrency: int) -> Target:
    """Open a component of a build as a target, with its code in `folder`. The caller closes the target.

    Raises:
        UsageError: The component cannot be used. The check does not call the component.
    """
    match component.kind:
        case "python":
            target = PythonTarget(component.address, PythonHost(folder, concurrency))
            await target.begin()
            return target
        case "http":
            return HttpTarget(component.address, header_values(component.headers), concurrency)
        case "cmd":
            return CommandTarget(component.address, folder)


def find_deployment(definitions: "ExperimentStore", name_or_id: str) -> Deployment:
    """Find a deployment by name, by id, or by the beginning of an id.

    If several deployments have the same name, the newest is returned. Raises `NotFoundError` if no deployment matches,
    and `UsageError` if several ids match.
    """
    create_command = "experiments deployments create --component …"
    return find_stored(
        "deployment", name_or_id, definitions.deployment(name_or_id), definitions.deployments, create_command
    )


def component_of(deployment: Deployment, name: str | None, type: str | None) -> Component:
    """Find a component by name and type. Raises `UsageError` with the wrong option and the known components."""
    component = deployment.component(name) if name else _only(deployment)
    names = ", ".join(f"{component.name} ({component.type})" for component in deployment.components)
    if component is None:
        raise UsageError(
            f"`component_name` {name!r} is not in deployment {deployment.id}; components: {names}",
            fields=("component_name",),
        )
    if type is not None and type != component.type:
        raise UsageError(
            f"`component_type` {type!r}: component {component.name} of {deployment.id} is of type {component.type}",
            fields=("component_type",),
        )
    return component


def _only(deployment: Deployment) -> Component:
    if len(deployment.components) == 1:
        return deployment.components[0]
    names = ", ".join(component.name for component in deployment.components)
    raise UsageError(
        f"the deployment has several components: give `component_name` NAME, one of: {names}",
        fields=("component_name",),
    )


def parse_components(
    texts: Sequence[str], type: ComponentType, headers: Sequence[str] = (), model: str | None = None
) -> tuple[Component, ...]:
    """Parse components such as `NAME=python:…`. Raises `UsageError`, which names the wrong option."""
    shared = {"type": type, **_model(model)}
    components = tuple(_component(text, shared, _headers(headers)) for text in texts)
    if headers and not any(component.kind == "http" for component in components):
        raise UsageError(
            "`header` applies only to components at http://… or https://…, but no such component is given",
            fields=("header",),
        )
    return components


def _component(text: str, shared: Mapping[str, object], headers: dict[str, str]) -> Component:
    name, _, location = text.partition("=")
    kind, address = _kind_and_address(location)
    if kind is None or not NAME.fullmatch(name):
        raise UsageError(f"`component` {text}: expected {FORMS}", fields=("component",))
    # Addresses and commands are stored and printed, so a secret in them would be, too.
    advice = "pass it to an address with `header` NAME=ENV_VAR, to a command in its environment"
    require_no_secret(address, f"`component` {name}=…", advice, fields=("component", "header"))
    if kind == "python" and not _PYTHON.fullmatch(address):
        raise UsageError(
            f"`component` {text}: write a function as python:package.module:function",
            fields=("component",),
        )
    defaults = {"model": name, **shared}
    return Component.model_validate(
        {**defaults, "name": name, "kind": kind, "address": address, "headers": headers if kind == "http" else {}}
    )


def _kind_and_address(location: str) -> tuple[ComponentKind | None, str]:
    scheme, _, address = location.partition(":")
    if scheme in ("http", "https"):
        return "http", location
    if scheme == "python":
        return "python", address
    return ("cmd", address.strip()) if scheme == "cmd" and address.strip() else (None, location)


def _headers(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if not _HEADER.fullmatch(text):
            name = text.partition("=")[0]
            raise UsageError(
                f"`header` {name}=…: write NAME=ENV_VAR, where ENV_VAR is an environment variable with the value; "
                "the value itself is never stored",
                fields=("header",),
            )
    return dict(text.split("=", 1) for text in texts)


def _model(model: str | None) -> dict[str, str]:
    if model is None:
        return {}
    provider, _, name = model.partition("/")
    if not provider or not name:
        raise UsageError(
            f"`model` {model}: expected PROVIDER/MODEL, the model under which reports on the runs are filed",
            fields=("model",),
        )
    return {"provider": provider, "model": name}


def _validate_components(components: Sequence[Component], folder: Path, name: str) -> Path:
    """Check the components and return the folder's absolute path."""
    names = [component.name for component in components]
    duplicates = [name for name in names if names.count(name) > 1]
    if not names:
        raise UsageError(f"`component` is missing: give {FORMS}", fields=("component",))
    if duplicates:
        raise UsageError(f"`component` {duplicates[0]} is named twice; names must be unique", fields=("component",))
    if not folder.is_dir():
        raise UsageError(f"`folder` {folder} is not a folder", fields=("folder",))
    # The ids of deployments begin with `dep-`.
    if name and (not NAME.fullmatch(name) or name.startswith("dep-")):
        raise UsageError(
            f"`name` {name}: use letters, digits, '.', '_', '-' and '/'; do not begin with dep-", fields=("name",)
        )
    return folder.resolve()


async def _check_component(
    component: Component, folder: Path, smoke_input: JsonValue, *, smoke: bool
) -> ComponentCheck:
    description = await _describe_component(component, folder)
    if not smoke:
        return ComponentCheck(component=component.name, message=description)
    reply = await _call_component(component, folder, smoke_input)
    if isinstance(reply, TargetFailure):
        log = f"\n{reply.log[-_LOG_SHOWN:].strip()}" if reply.log.strip() else ""
        raise DataError(f"{component.name} fails on the smoke input: {reply.reason}{log}")
    return ComponentCheck(component=component.name, message=description, reply=reply)


async def _describe_component(component: Component, folder: Path) -> str:
    """Check that a component exists and describe it. Raises `EvalscribeError` if the component cannot be used."""
    match component.kind:
        case "python":
            function = await describe(folder, component.address, "component")
            return f"imported, takes ({', '.join(function.parameters)})"
        case "http":
            target = HttpTarget(component.address, header_values(component.headers), 1)
            try:
                return await target.reachable(REACH_S)
            finally:
                await target.close()
        case "cmd":
            return find_program(split_command(component.address), folder)


async def _call_component(component: Component, folder: Path, value: JsonValue) -> TargetReply | TargetFailure:
    target = await component_target(component, folder, 1)
    call = TargetCall(run_id="smoke", item_key="smoke", repetition=1, input=value, timeout_s=SMOKE_S)
    try:
        return await target.answer(call)
    finally:
        await target.close()
