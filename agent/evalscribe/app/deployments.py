"""Deployments: components that work, with the build that they are of."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from evalscribe.app.named import nothing_called
from evalscribe.app.unstored import require_no_secret
from evalscribe.deployment import Component, ComponentKind, ComponentType, Deployment, SourceState
from evalscribe.errors import DataError, UsageError
from evalscribe.ids import Frozen
from evalscribe.ports import Definitions
from evalscribe.target import TargetFailed, TargetReply

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}")
_PYTHON = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+=[A-Za-z_][A-Za-z0-9_]*")
FORMS = "NAME=python:package.module:function, NAME=http(s)://… or NAME=cmd:…"
_LOG_SHOWN = 2000


class NewDeployment(Frozen):
    components: tuple[Component, ...]
    folder: Path
    name: str = ""
    smoke_input: JsonValue = None
    smoke: bool = False
    """Whether each component is called once, with `smoke_input`."""


class Seen(Frozen):
    """What a component showed of itself."""

    component: str
    said: str
    reply: TargetReply | None = None
    """To the smoke input, where one was given."""


class Made(Frozen):
    deployment: Deployment
    new: bool
    """False where the same build of the same components is there already."""
    seen: tuple[Seen, ...]


class Probe(Protocol):
    """Tries components."""

    async def check(self, component: Component, folder: Path) -> str:
        """That it is there; what was seen. Raises `EvalscribeError` where it cannot be used."""

    async def call(self, component: Component, folder: Path, value: JsonValue) -> TargetReply | TargetFailed:
        """One real call."""


async def created(
    definitions: Definitions,
    wanted: NewDeployment,
    probe: Probe,
    state: Callable[[Path], SourceState],
    python: str,
    now: str,
) -> Made:
    """Raises `UsageError` for a component that cannot be used, `DataError` for one that fails at the smoke input."""
    _check(wanted)
    folder = wanted.folder.resolve()
    seen = tuple([await _seen(component, folder, wanted, probe) for component in wanted.components])
    bare = Deployment(
        id="",
        name=wanted.name,
        components=wanted.components,
        folder=str(folder),
        **state(folder).model_dump(),
        python=python,
        created_at=now,
    )
    there = definitions.deployment(bare.content)
    deployment = there or bare.model_copy(update={"id": bare.content})
    if there is None:
        definitions.add_deployment(deployment)
    return Made(deployment=deployment, new=there is None, seen=seen)


def found(definitions: Definitions, named: str) -> Deployment:
    """By id, or the newest of a name. Raises `NotFoundError` naming what there is."""
    if deployment := definitions.deployment(named):
        return deployment
    there = [one.name or one.id for one in definitions.deployments()]
    raise nothing_called("deployment", named, there, "deployments create --component …")


def components(
    texts: Sequence[str], type: ComponentType, headers: Sequence[str] = (), model: str | None = None
) -> tuple[Component, ...]:
    """Of `NAME=python:…` and the like. Raises `UsageError` naming the option."""
    shared = {"type": type, **_model(model)}
    made = tuple(_component(text, shared, _headers(headers)) for text in texts)
    if headers and not any(one.kind == "http" for one in made):
        raise UsageError("--header is for components at an address, http://… or https://…: none is here")
    return made


def _component(text: str, shared: Mapping[str, object], headers: dict[str, str]) -> Component:
    name, _, place = text.partition("=")
    kind, address = _place(place)
    if kind is None or not NAME.fullmatch(name):
        raise UsageError(f"--component {text}: write {FORMS}")
    instead = "an address takes it from --header NAME=ENV_VAR, a command from its environment"
    require_no_secret(address, f"--component {name}=…", instead)
    if kind == "python" and not _PYTHON.fullmatch(address):
        raise UsageError(f"--component {text}: a function is python:package.module:function, its module imported")
    given = {"provider": "component", "model": name, **shared}
    return Component.model_validate(
        {**given, "name": name, "kind": kind, "address": address, "headers": headers if kind == "http" else {}}
    )


def _place(place: str) -> tuple[ComponentKind | None, str]:
    scheme, _, rest = place.partition(":")
    if scheme in ("http", "https"):
        return "http", place
    if scheme == "python":
        return "python", rest
    return ("cmd", rest.strip()) if scheme == "cmd" and rest.strip() else (None, place)


def _headers(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if not _HEADER.fullmatch(text):
            name = text.partition("=")[0]
            raise UsageError(
                f"--header {name}=…: write NAME=ENV_VAR, the environment variable that holds its value; "
                "the value itself is never stored"
            )
    return dict(text.split("=", 1) for text in texts)


def _model(model: str | None) -> dict[str, str]:
    if model is None:
        return {}
    provider, _, name = model.partition("/")
    if not provider or not name:
        raise UsageError(f"--model {model}: write PROVIDER/MODEL, whose reports the runs belong to")
    return {"provider": provider, "model": name}


def _check(wanted: NewDeployment) -> None:
    names = [one.name for one in wanted.components]
    twice = [name for name in names if names.count(name) > 1]
    if not names:
        raise UsageError(f"--component is missing: {FORMS}")
    if twice:
        raise UsageError(f"--component {twice[0]} is named twice: each has a name of its own")
    if not wanted.folder.is_dir():
        raise UsageError(f"--folder {wanted.folder} is no folder")
    if wanted.name and (not NAME.fullmatch(wanted.name) or wanted.name.startswith("dep-")):
        raise UsageError(f"--name {wanted.name}: letters, digits, '.', '_', '-' and '/', and not as an id begins")


async def _seen(component: Component, folder: Path, wanted: NewDeployment, probe: Probe) -> Seen:
    said = await probe.check(component, folder)
    if not wanted.smoke:
        return Seen(component=component.name, said=said)
    reply = await probe.call(component, folder, wanted.smoke_input)
    if isinstance(reply, TargetFailed):
        log = f"\n{reply.log[-_LOG_SHOWN:].strip()}" if reply.log.strip() else ""
        raise DataError(f"{component.name} fails at the smoke input: {reply.reason}{log}")
    return Seen(component=component.name, said=said, reply=reply)
