"""Implements `evalscribe experiments deployments create|list|show`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, cast

import typer
from pydantic import JsonValue

from evalscribe.cli import output
from evalscribe.cli.interrupts import run_until_signal
from evalscribe.cli.tables import Format, print_document, print_id, print_list, validate_format
from evalscribe.errors import DataError, UsageError
from evalscribe.experiments.deployments import (
    CheckedBuild,
    check_build,
    find_deployment,
    parse_components,
    record_build,
)
from evalscribe.ids import canonical_json
from evalscribe.json_data import StrictJson
from evalscribe.model.target import Component, Deployment
from evalscribe.text import cut
from evalscribe.workspace import Workspace

LONGEST_REPLY = 500
"""Maximum number of characters shown from a component's reply to the input given with `--smoke-input`."""


def create(
    component: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PLACE",
            help="A component: python:PKG.MOD:FN, http(s)://… or cmd:… (run without a shell). Repeatable.",
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
            help="Name of the deployment. In other commands, the name selects the newest deployment with that name.",
            show_default=False,
        ),
    ] = "",
    folder: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder to import functions from and to run commands in. Default: the current folder.",
            show_default=True,
        ),
    ] = Path("."),
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ENV_VAR",
            help="HTTP header whose value is in an environment variable; the value is never stored. Repeatable.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model name under which reports on the runs are filed. Default: component/NAME.",
            show_default=False,
        ),
    ] = None,
    smoke_input: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="Call each component once with this input, and show the reply.",
            show_default=False,
        ),
    ] = None,
    form: Format = "table",
) -> int:
    """Record a build of components (commit, local changes, folder) as a deployment.

    Each component is checked first: a function is imported, a command is looked up, an address is contacted. The
    command prints the deployment's id. If the same build was recorded before, it prints the id of that deployment.
    """
    validate_format(form)
    components = parse_components(component or (), type, header or (), model)
    smoke = smoke_input is not None
    parsed_input = _json(smoke_input) if smoke_input is not None else None
    with Workspace() as workspace:
        job = check_build(workspace, components, folder=folder, name=name, smoke=smoke, smoke_input=parsed_input)
        result = record_build(workspace, run_until_signal(job))
    for line in _smoke_lines(result):
        output.aside(line)
    message = f"deployment {result.deployment.id}, {result.deployment.build}"
    print_id(
        result.deployment.id, result.deployment, f"Made {message}" if result.new else f"unchanged: {message}", form
    )
    return 0


def list_deployments(form: Format = "table") -> int:
    """List the deployments, oldest first."""
    with Workspace() as workspace:
        deployments = workspace.store.experiments.deployments()
    heads = ("id", "name", "build", "components", "created")
    none = "There is no deployment yet: `evalscribe experiments deployments create --component …` creates one."
    print_list(deployments, heads, _cells, form, none)
    return 0


def show(
    deployment: Annotated[
        str, typer.Argument(metavar="DEPLOYMENT", help="A deployment: id, first characters of the id, or name.")
    ],
    form: Format = "table",
) -> int:
    """Show a deployment: components, build, folder."""
    with Workspace() as workspace:
        deployment_record = find_deployment(workspace.store.experiments, deployment)
    print_document(deployment_record, lambda: _deployment_lines(deployment_record), form)
    return 0


def _json(text: str) -> JsonValue:
    try:
        return cast("JsonValue", StrictJson().decode(text))
    except DataError as error:
        raise UsageError(f"--smoke-input: {error}. A string needs quotes: '\"hello\"'") from None


def _smoke_lines(result: CheckedBuild) -> Iterator[str]:
    for item in result.checks:
        yield f"{item.component}: {item.message}"
        if item.reply:
            reply = cut(canonical_json(item.reply.output), LONGEST_REPLY)
            yield f"  replies in {item.reply.duration_ms:,.0f} ms: {reply}"


def _cells(deployment: Deployment) -> tuple[object, ...]:
    places = ", ".join(f"{component.name}={component.shown}" for component in deployment.components)
    return deployment.id, deployment.name, deployment.build, places, deployment.created_at[:19]


def _deployment_lines(deployment: Deployment) -> Iterator[str]:
    yield f"deployment {deployment.id}" + (f" ({deployment.name})" if deployment.name else "")
    yield f"build      {deployment.build}"
    if deployment.commit and deployment.dirty:
        yield f"differs    {deployment.code}"
    elif deployment.code:
        yield f"code       {deployment.code}"
    yield f"folder     {deployment.folder}"
    yield f"python     {deployment.python}"
    yield f"made       {deployment.created_at}"
    for component in deployment.components:
        yield from _component(component)


def _component(component: Component) -> Iterator[str]:
    yield f"{component.type} {component.name} = {component.shown}"
    yield f"  reports of {component.provider}/{component.model}"
    for header, variable in component.headers.items():
        yield f"  header {header} from ${variable}"
