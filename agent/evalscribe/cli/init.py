"""Implements `evalscribe init [DIR]`, which sets up a workspace for people and coding agents."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Annotated, Literal

import typer

from evalscribe.cli import options
from evalscribe.cli.output import hint, print_json, say
from evalscribe.collections.runs import PACKED, SAMPLE
from evalscribe.errors import EvalscribeError
from evalscribe.git.report_folder import NewFiles
from evalscribe.ids import Frozen
from evalscribe.prompts.templates import Prompts, shipped_folder
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import recognise

SERVER = "evalscribe"
"""Name of the MCP server in the configuration files of editors."""
OWN_NAME = "evalscribe"
WORKSPACE = "${workspaceFolder}"
"""Variable for the path of the workspace in the configuration of Cursor and VS Code.

Claude Code has no such variable, so its configuration has the path itself.
"""
MOST_ENTRIES = 200
"""Maximum number of files and folders in the workspace that are checked for runs."""


class StarterFile(Frozen):
    name: str
    """Path of the file relative to the workspace, with `/` as separator."""
    text: str
    needed: str = ""
    """Text that the user has to add to the file if it already exists."""
    marker: str = OWN_NAME
    """Word that shows that an existing file already has the text `needed`."""


class PlacedFile(Frozen):
    """Result of `init` for one file."""

    name: str
    state: Literal["written", "unchanged", "kept"]
    add: str = ""
    """Text that the user should add to the existing file; empty if there is none."""


class InitResult(Frozen):
    """A workspace that was set up, and the result for each of its files."""

    folder: Path
    command: str
    """Absolute path of the program evalscribe; only its name if the path was not found."""
    files: tuple[PlacedFile, ...]


def write_starter_files(
    folder: Path, *, claude: bool = False, cursor: bool = False, vscode: bool = False
) -> InitResult:
    """Write the missing files of a workspace.

    Args:
        folder: The workspace, which is created if it does not exist.
        claude: True to write files for Claude Code.
        cursor: True to write files for Cursor.
        vscode: True to write files for VS Code.

    Raises:
        DataError: The folder or a file cannot be created. Nothing was written.
    """
    files = NewFiles(folder)
    command = _command()
    starters = list(_all(command, files.root, claude=claude, cursor=cursor, vscode=vscode))
    files.check(file.name for file in starters)
    placed = tuple(placed for file in starters for placed in _place(files, file))
    return InitResult(folder=files.root, command=command, files=placed)


def _command() -> str:
    """Return the path of the program evalscribe.

    Editors need the path, because their PATH does not have the folder of a virtual environment.
    """
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    program = shutil.which(OWN_NAME, path=programs)
    return os.path.abspath(program) if program else OWN_NAME


def _place(files: NewFiles, file: StarterFile) -> Iterator[PlacedFile]:
    content = files.held(file.name)
    if content is None and files.create(file.name, file.text):
        yield PlacedFile(name=file.name, state="written")
    elif content == file.text.encode():
        yield PlacedFile(name=file.name, state="unchanged")
    else:
        lacks = file.marker.encode() not in (content or b"")
        yield PlacedFile(name=file.name, state="kept", add=file.needed if lacks else "")
        if lacks and file.name == "AGENTS.md":  # this text is too long for the user to add, so it gets its own file
            yield from _place(files, file.model_copy(update={"name": _alternative_name(file.name), "needed": ""}))


def _all(command: str, folder: Path, *, claude: bool, cursor: bool, vscode: bool) -> Iterator[StarterFile]:
    # Use the shipped templates only, because those in the folder might come from a stranger.
    prompts = Prompts()
    yield from _for_people(prompts)
    agents = f"Before you use evalscribe, read {_alternative_name('AGENTS.md')}."
    yield StarterFile(
        name="AGENTS.md", text=prompts.render("workspace/AGENTS.md.j2", command=quote(command)), needed=agents
    )
    if claude:
        yield from _for_claude(command, folder)
    if cursor:
        yield StarterFile(name=".cursor/rules/evalscribe.mdc", text=prompts.render("workspace/cursor_rule.mdc.j2"))
        yield _servers(".cursor/mcp.json", "mcpServers", _server(command, WORKSPACE))
    if vscode:
        yield _servers(".vscode/mcp.json", "servers", {"type": "stdio", **_server(command, WORKSPACE)})


def _for_people(prompts: Prompts) -> Iterator[StarterFile]:
    yield StarterFile(name="evalscribe.toml", text=prompts.render("workspace/evalscribe.toml.j2"), marker="")
    yield StarterFile(name=".env.example", text=prompts.render("workspace/env.example.j2"), marker="")
    ignored = prompts.render("workspace/gitignore.j2")
    yield StarterFile(name=".gitignore", text=ignored, needed=ignored.strip(), marker=".env")


def _for_claude(command: str, folder: Path) -> Iterator[StarterFile]:
    yield StarterFile(name="CLAUDE.md", text="@AGENTS.md\n", needed="@AGENTS.md", marker="AGENTS.md")
    yield _servers(".mcp.json", "mcpServers", _server(command, str(folder)))
    for name, text in sorted(_skills().items()):
        yield StarterFile(name=f".claude/skills/{name}", text=text)


def _skills() -> Mapping[str, str]:
    """Return the texts of all files of the shipped skills, keyed by their path relative to the folder of skills."""
    top = shipped_folder("skills")
    paths = (path for path in top.rglob("*") if path.is_file() and path.suffix in (".md", ".py"))
    return {path.relative_to(top).as_posix(): path.read_text("utf-8") for path in paths}


def _server(command: str, folder: str) -> dict[str, object]:
    """Return the configuration of the MCP server.

    `folder` is the path of the workspace, or the editor's variable for that path.
    """
    return {"command": command, "args": ["mcp", "--folder", folder]}


def _servers(name: str, key: str, server: Mapping[str, object]) -> StarterFile:
    text = json.dumps({key: {SERVER: server}}, indent=2)
    return StarterFile(name=name, text=f"{text}\n", needed=text, marker=f'"{SERVER}"')


def _alternative_name(name: str) -> str:
    path = PurePosixPath(name)
    return f"{path.stem}.{OWN_NAME}{path.suffix}"


def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder to set up; created if needed. Default: the current folder.", show_default=False
        ),
    ] = Path(),
    claude: Annotated[
        bool,
        typer.Option(
            "--claude", help="Also write the files for Claude Code: skills, MCP server settings and CLAUDE.md."
        ),
    ] = False,
    cursor: Annotated[
        bool,
        typer.Option("--cursor", help="Also write the files for the editor Cursor: a rule and MCP server settings."),
    ] = False,
    vscode: Annotated[
        bool, typer.Option("--vscode", help="Also write the file for VS Code: MCP server settings.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Set up a folder for people and coding agents: settings, instructions, MCP servers, skills.

    Existing files are not changed. The text that should be added to them is printed.
    """
    result = write_starter_files(folder, claude=claude, cursor=cursor, vscode=vscode)
    if as_json:
        print_json(result)
        return 0
    _show(result)
    _show_next(result, for_editors=claude or cursor or vscode)
    return 0


def _show(result: "InitResult") -> None:
    for title, state in (("Wrote", "written"), ("Unchanged", "unchanged"), ("Not overwritten", "kept")):
        some = [file for file in result.files if file.state == state]
        if some:
            say(f"{title}, in {result.folder}:")
        for file in some:
            say(f"  {file.name}{'   add to it:' if file.add else ''}")
            for line in file.add.splitlines():
                say(f"      {line}")


def _show_next(result: "InitResult", *, for_editors: bool) -> None:
    say()
    if for_editors:
        say(f"Editors start the MCP server with `{quote(result.command)} mcp`. Open the folder in a separate window.")
        if find_spec("mcp") is None:
            say(
                "The MCP server needs one more package, in the environment of evalscribe: pip install 'evalscribe[mcp]'"
            )
    else:
        say("To set up a coding agent as well, repeat the command with --claude, --cursor or --vscode.")
    say("Put API keys into .env (a copy of .env.example); judging by rules needs no key.")
    name = OWN_NAME if shutil.which(OWN_NAME) else quote(result.command)
    if name != OWN_NAME:
        say(
            "This shell does not find the command `evalscribe`, so AGENTS.md tells agents the full path of the command."
        )
    go = "" if result.folder == Path.cwd() else f"cd {quote(str(result.folder))} && "
    hint(f"Next: {go}{name} import {quote(_runs_in(result.folder) or SAMPLE)}")


def _runs_in(folder: Path) -> str | None:
    """Return the name of the first file or subfolder in `folder` that contains runs; None if there is none."""
    for path in sorted(islice(folder.iterdir(), MOST_ENTRIES)):
        if path.name.startswith(".") or not (path.is_dir() or path.name.endswith(PACKED)):
            continue
        with suppress(EvalscribeError):
            recognise(path, RunOverrides())
            return path.name
    return None
