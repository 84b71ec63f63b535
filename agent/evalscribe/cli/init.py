"""`evalscribe init [DIR]`: write a workspace for people and coding agents."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Annotated, Literal

import typer

from evalscribe import __version__
from evalscribe.cli.output import say
from evalscribe.git.report_folder import NewFiles
from evalscribe.ids import Frozen
from evalscribe.prompts.templates import Prompts, shipped_folder

SERVER = "evalscribe"
"""What editors call the MCP server."""
OWN_NAME = "evalscribe"
WORKSPACE = "${workspaceFolder}"
"""As Cursor and VS Code write it. Claude Code starts servers in the workspace."""


class StarterFile(Frozen):
    name: str
    """Relative to the workspace, with slashes."""
    text: str
    needed: str = ""
    """What a file of this name that is there already must have, to be put in by hand."""
    told_by: str = OWN_NAME
    """The word by which one sees that it has it."""


class PlacedFile(Frozen):
    """What became of one file."""

    name: str
    state: Literal["written", "unchanged", "kept"]
    add: str = ""
    """To be added to a file that was kept."""


class InitResult(Frozen):
    """A workspace that has all its files."""

    folder: Path
    command: str
    """What starts evalscribe: a name to be found on the PATH, or a path relative to the workspace."""
    files: tuple[PlacedFile, ...]


def write_starter_files(
    folder: Path, *, claude: bool = False, cursor: bool = False, vscode: bool = False
) -> InitResult:
    """Write the files of a workspace that are not there.

    Args:
        folder: The workspace; made with its first file.
        claude: Whether to write files for Claude Code.
        cursor: Whether to write files for Cursor.
        vscode: Whether to write files for VS Code.

    Raises:
        DataError: The folder, or one of the files, cannot be made; nothing was written.
    """
    files = NewFiles(folder)
    command = _command(files.root)
    wanted = list(_all(files.root.name, command, claude=claude, cursor=cursor, vscode=vscode))
    files.check(file.name for file in wanted)
    placed = tuple(placed for file in wanted for placed in _place(files, file))
    return InitResult(folder=files.root, command=command, files=placed)


def _command(folder: Path) -> str:
    """How editors start this evalscribe: by its path in a virtual environment of the workspace, else by its name."""
    script = shutil.which(OWN_NAME, path=str(Path(sys.executable).parent))
    if script and os.path.commonpath([folder, os.path.abspath(script)]) == str(folder):
        return Path(os.path.relpath(script, folder)).as_posix()
    return OWN_NAME


def _place(files: NewFiles, file: StarterFile) -> Iterator[PlacedFile]:
    held = files.held(file.name)
    if held is None and files.create(file.name, file.text):
        yield PlacedFile(name=file.name, state="written")
    elif held == file.text.encode():
        yield PlacedFile(name=file.name, state="unchanged")
    else:
        lacks = file.told_by.encode() not in (held or b"")
        yield PlacedFile(name=file.name, state="kept", add=file.needed if lacks else "")
        if lacks and file.name == "AGENTS.md":  # too long to be put in by hand
            yield from _place(files, file.model_copy(update={"name": _beside(file.name), "needed": ""}))


def _all(folder: str, command: str, *, claude: bool, cursor: bool, vscode: bool) -> Iterator[StarterFile]:
    """`folder`: name of the workspace's folder, of which the project's name is made."""
    prompts = Prompts()
    yield from _for_people(folder, prompts)
    agents = f"Before you use evalscribe, read {_beside('AGENTS.md')}."
    yield StarterFile(name="AGENTS.md", text=prompts.render("workspace/AGENTS.md.j2"), needed=agents)
    if claude:
        yield from _for_claude(command)
    if cursor:
        yield StarterFile(name=".cursor/rules/evalscribe.md", text=prompts.render("workspace/cursor_rule.md.j2"))
        yield _servers(".cursor/mcp.json", "mcpServers", _server(command, WORKSPACE))
    if vscode:
        yield _servers(".vscode/mcp.json", "servers", {"type": "stdio", **_server(command, WORKSPACE)})


def _for_people(folder: str, prompts: Prompts) -> Iterator[StarterFile]:
    project = prompts.render("workspace/pyproject.toml.j2", project=_project(folder), version=__version__)
    depends = f'dependencies = ["evalscribe[all]>={__version__}"]'
    yield StarterFile(name="pyproject.toml", text=project, needed=depends)
    yield StarterFile(name="evalscribe.toml", text=prompts.render("workspace/evalscribe.toml.j2"), told_by="")
    yield StarterFile(name=".env.example", text=prompts.render("workspace/env.example.j2"), told_by="")
    ignored = prompts.render("workspace/gitignore.j2")
    yield StarterFile(name=".gitignore", text=ignored, needed=ignored.strip(), told_by=".env")


def _for_claude(command: str) -> Iterator[StarterFile]:
    yield StarterFile(name="CLAUDE.md", text="@AGENTS.md\n", needed="@AGENTS.md", told_by="AGENTS.md")
    yield _servers(".mcp.json", "mcpServers", _server(command))
    for name, text in sorted(_skills().items()):
        yield StarterFile(name=f".claude/skills/{name}", text=text)


def _skills() -> Mapping[str, str]:
    """The text of every file of the skills that come with the package, by its path below their folder."""
    top = shipped_folder("skills")
    found = (path for path in top.rglob("*") if path.is_file() and path.suffix in (".md", ".py"))
    return {path.relative_to(top).as_posix(): path.read_text("utf-8") for path in found}


def _server(command: str, workspace: str | None = None) -> dict[str, object]:
    """`workspace`: what the editor puts in its place; None if it starts servers there."""
    if workspace is None:
        return {"command": command, "args": ["mcp"]}
    command = f"{workspace}/{command}" if "/" in command else command
    return {"command": command, "args": ["mcp", "--folder", workspace]}


def _servers(name: str, key: str, server: Mapping[str, object]) -> StarterFile:
    text = json.dumps({key: {SERVER: server}}, indent=2)
    return StarterFile(name=name, text=f"{text}\n", needed=text, told_by=f'"{SERVER}"')


def _project(folder: str) -> str:
    """A name that a Python project may have, and that is not ours: it depends on us."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", folder).strip("-").lower() or "evals"
    return f"{name}-workspace" if name == OWN_NAME else name


def _beside(name: str) -> str:
    path = PurePosixPath(name)
    return f"{path.stem}.{OWN_NAME}{path.suffix}"


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Made if need be. Default: this folder.", show_default=False)
    ] = Path(),
    claude: Annotated[
        bool, typer.Option("--claude", help="Also for Claude Code: skills, MCP server, CLAUDE.md.")
    ] = False,
    cursor: Annotated[bool, typer.Option("--cursor", help="Also for Cursor: a rule, MCP server.")] = False,
    vscode: Annotated[bool, typer.Option("--vscode", help="Also for VS Code: MCP server.")] = False,
) -> int:
    """Write a workspace for people and coding agents: settings, instructions, MCP configuration, skills.

    Nothing that is there is overwritten: it stays as it is, and what should be added to it is printed.
    """

    done = write_starter_files(folder, claude=claude, cursor=cursor, vscode=vscode)
    _show(done)
    _show_next(done, for_editors=claude or cursor or vscode)
    return 0


def _show(done: "InitResult") -> None:

    for title, state in (("Wrote", "written"), ("There already", "unchanged"), ("Kept as they are", "kept")):
        some = [one for one in done.files if one.state == state]
        if some:
            say(f"{title}, in {done.folder}:")
        for one in some:
            say(f"  {one.name}{'   add to it:' if one.add else ''}")
            for line in one.add.splitlines():
                say(f"      {line}")


def _show_next(done: "InitResult", *, for_editors: bool) -> None:

    say()
    if for_editors:
        say(f"Editors start `{done.command} mcp`, and must find it. Open the folder in a window of its own.")
    else:
        say("For coding agents also: --claude, --cursor, --vscode.")
    say("Keys go into .env, made from .env.example; rules need none.")
    go = "" if done.folder == Path.cwd() else f"cd {quote(str(done.folder))} && "
    say(f"Next: {go}evalscribe import sample")
