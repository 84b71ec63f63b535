"""`evalscribe experiments prompts create|list|show`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.tables import Format, print_document, print_id, print_list, validate_format
from evalscribe.experiments.definitions import create_prompt, find_prompt, read_prompt
from evalscribe.ids import canonical_json
from evalscribe.text import cut, one_line
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.model.target import TargetPrompt, TargetPromptVersion


def create(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A YAML, JSON or text file; text may begin with front matter.")
    ],
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the prompt.", show_default=False)],
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Model to use instead of the file's.", show_default=False),
    ] = None,
    form: Format = "table",
) -> int:
    """Create a prompt or its next version, unless nothing changed. Prints its id.

    The file has `model`, `messages` or `text`, and optionally `system`, `max_tokens`, `effort` and `output_schema`.
    {{input}} and {{input.NAME}} are replaced by the input of an item.
    """
    validate_format(form)
    wanted = read_prompt(file)
    with Workspace() as workspace:
        done = create_prompt(workspace.store.experiments, name, wanted, model, workspace.now())
    told = f"prompt {done.prompt.name}, version {done.version.number} ({done.version.id}), for {done.version.model}"
    print_id(done.prompt.id, done.prompt, f"Made {told}" if done.new else f"unchanged: {told}", form)
    return 0


def list_prompts(form: Format = "table") -> int:
    """List the prompts and their latest versions."""
    with Workspace() as workspace:
        there = workspace.store.experiments.prompts()
    none = "There is no prompt yet: `evalscribe experiments prompts create --name N FILE` creates one."
    print_list(there, ("id", "name", "version", "model", "begins"), _cells, form, none)
    return 0


def show(
    prompt: Annotated[
        str,
        typer.Argument(
            metavar="PROMPT[@V]", help="A prompt: id, first characters of the id, or name; @V selects a version."
        ),
    ],
    form: Format = "table",
) -> int:
    """Show a version of a prompt: messages and parameters."""
    with Workspace() as workspace:
        one, version = find_prompt(workspace.store.experiments, prompt)
    print_document(version, lambda: _told(one, version), form)
    return 0


def _cells(one: "TargetPrompt") -> tuple[object, ...]:
    latest = one.versions[-1]
    return one.id, one.name, latest.number, latest.model, cut(one_line(latest.messages[0].content), 60)


def _told(one: "TargetPrompt", version: "TargetPromptVersion") -> Iterator[str]:
    yield f"prompt {one.name} ({one.id}), version {version.number} of {len(one.versions)} ({version.id})"
    yield f"model      {version.model}, at most {version.max_tokens:,} tokens"
    if version.effort:
        yield f"effort     {version.effort}"
    if version.output_schema:
        yield f"schema     {canonical_json(version.output_schema)}"
    for message in version.messages:
        yield f"[{message.role}]"
        yield message.content
