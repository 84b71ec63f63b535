"""`evalscribe experiments deployments create|list|show`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, cast

import typer
from pydantic import JsonValue

from evalscribe.cli import output
from evalscribe.cli.tables import Format, print_document, print_id, print_list, validate_format
from evalscribe.errors import DataError, UsageError
from evalscribe.experiments.deployments import CreatedDeployment, create_deployment, find_deployment, parse_components
from evalscribe.ids import canonical_json
from evalscribe.interrupts import run_until_signal
from evalscribe.json_data import StrictJson
from evalscribe.model.target import Component, Deployment
from evalscribe.text import cut
from evalscribe.workspace import Workspace

SHOWN = 500
"""Maximum characters that are shown of a component's reply to the smoke input."""


def create(
    component: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PLACE",
            help="A component: python:PKG.MOD:FN, http(s)://… or cmd:… (no shell). Repeatable.",
            show_default=False,
        ),
    ] = None,
    type: Annotated[
        Literal["agent", "function", "workflow"],
        typer.Option(metavar="agent|function|workflow", help="Type of the components. Default: agent."),
    ] = "agent",
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Name to use in place of the id, for the newest deployment of that name.",
            show_default=False,
        ),
    ] = "",
    folder: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder to import from and to run commands in. Default: this folder.", show_default=True
        ),
    ] = Path("."),
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ENV_VAR",
            help="HTTP header whose value is in an environment variable; never stored. Repeatable.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model that reports of the runs belong to. Default: component/NAME.",
            show_default=False,
        ),
    ] = None,
    smoke_input: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Call each component once with this input, and show the reply.", show_default=False
        ),
    ] = None,
    form: Format = "table",
) -> int:
    """Record a build of components: commit, local changes, folder. Prints its id.

    Each component is checked first: a function is imported, a command looked up, an address contacted. The same build
    keeps its id.
    """
    validate_format(form)
    wanted = parse_components(component or (), type, header or (), model)
    smoke = smoke_input is not None
    given = _json(smoke_input) if smoke_input is not None else None
    with Workspace() as workspace:
        job = create_deployment(workspace, wanted, folder=folder, name=name, smoke=smoke, smoke_input=given)
        done = run_until_signal(job)
    for line in _seen(done):
        output.aside(line)
    told = f"deployment {done.deployment.id}, {done.deployment.build}"
    print_id(done.deployment.id, done.deployment, f"Made {told}" if done.new else f"unchanged: {told}", form)
    return 0


def list_deployments(form: Format = "table") -> int:
    """List the deployments, oldest first."""
    with Workspace() as workspace:
        there = workspace.store.experiments.deployments()
    heads = ("id", "name", "build", "components", "created")
    none = "There is no deployment yet: `evalscribe experiments deployments create --component …` creates one."
    print_list(there, heads, _cells, form, none)
    return 0


def show(
    deployment: Annotated[
        str, typer.Argument(metavar="DEPLOYMENT", help="A deployment: id, first characters of the id, or name.")
    ],
    form: Format = "table",
) -> int:
    """Show a deployment: components, build, folder."""
    with Workspace() as workspace:
        one = find_deployment(workspace.store.experiments, deployment)
    print_document(one, lambda: _told(one), form)
    return 0


def _json(text: str) -> JsonValue:
    try:
        return cast("JsonValue", StrictJson().decode(text))
    except DataError as error:
        raise UsageError(f"--smoke-input: {error}. A string needs quotes: '\"hello\"'") from None


def _seen(done: CreatedDeployment) -> Iterator[str]:
    for one in done.seen:
        yield f"{one.component}: {one.said}"
        if one.reply:
            yield f"  replies in {one.reply.duration_ms:,.0f} ms: {cut(canonical_json(one.reply.output), SHOWN)}"


def _cells(one: Deployment) -> tuple[object, ...]:
    places = ", ".join(f"{component.name}={component.shown}" for component in one.components)
    return one.id, one.name, one.build, places, one.created_at[:19]


def _told(one: Deployment) -> Iterator[str]:
    yield f"deployment {one.id}" + (f" ({one.name})" if one.name else "")
    yield f"build      {one.build}"
    if one.commit and one.dirty:
        yield f"differs    {one.code}"
    elif one.code:
        yield f"code       {one.code}"
    yield f"folder     {one.folder}"
    yield f"python     {one.python}"
    yield f"made       {one.created_at}"
    for component in one.components:
        yield from _component(component)


def _component(component: Component) -> Iterator[str]:
    yield f"{component.type} {component.name} = {component.shown}"
    yield f"  reports of {component.provider}/{component.model}"
    for header, variable in component.headers.items():
        yield f"  header {header} from ${variable}"
