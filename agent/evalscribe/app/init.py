"""Write what a workspace begins with, for people and for coding agents; what is there stays as it is."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Literal, Protocol

from evalscribe import __version__
from evalscribe.ids import Frozen
from evalscribe.prompts import Prompts

SERVER = "evalscribe"
"""What editors call the MCP server."""
OWN_NAME = "evalscribe"
WORKSPACE = "${workspaceFolder}"
"""As Cursor and VS Code write it. Claude Code starts servers in the workspace."""


class Editors(Frozen):
    """Whose files are wanted."""

    claude: bool = False
    cursor: bool = False
    vscode: bool = False


class Wish(Frozen):
    folder: str
    """Name of the folder, of which the project's name is made."""
    command: str
    """What starts evalscribe: a name to be found on the PATH, or a path relative to the workspace."""
    editors: Editors


class StarterFile(Frozen):
    name: str
    """Relative to the workspace, with slashes."""
    text: str
    needed: str = ""
    """What a file of this name that is there already must have, to be put in by hand."""
    told_by: str = OWN_NAME
    """The word by which one sees that it has it."""


class Placed(Frozen):
    """What became of one file."""

    name: str
    state: Literal["written", "unchanged", "kept"]
    add: str = ""
    """To be added to a file that was kept."""


class Files(Protocol):
    def check(self, names: Iterable[str]) -> None: ...
    def held(self, name: str) -> bytes | None: ...
    def create(self, name: str, text: str) -> bool: ...


def init(files: Files, wish: Wish, prompts: Prompts, skills: Mapping[str, str]) -> tuple[Placed, ...]:
    """`skills`: text by path below the skills folder. Raises `DataError` before anything is written."""
    wanted = list(_all(wish, prompts, skills))
    files.check(file.name for file in wanted)
    return tuple(placed for file in wanted for placed in _place(files, file))


def _place(files: Files, file: StarterFile) -> Iterator[Placed]:
    held = files.held(file.name)
    if held is None and files.create(file.name, file.text):
        yield Placed(name=file.name, state="written")
    elif held == file.text.encode():
        yield Placed(name=file.name, state="unchanged")
    else:
        lacks = file.told_by.encode() not in (held or b"")
        yield Placed(name=file.name, state="kept", add=file.needed if lacks else "")
        if lacks and file.name == "AGENTS.md":  # too long to be put in by hand
            yield from _place(files, file.model_copy(update={"name": _beside(file.name), "needed": ""}))


def _all(wish: Wish, prompts: Prompts, skills: Mapping[str, str]) -> Iterator[StarterFile]:
    yield from _for_people(wish, prompts)
    agents = f"Before you use evalscribe, read {_beside('AGENTS.md')}."
    yield StarterFile(name="AGENTS.md", text=prompts.render("workspace/AGENTS.md.j2"), needed=agents)
    if wish.editors.claude:
        yield from _for_claude(wish, skills)
    if wish.editors.cursor:
        yield StarterFile(name=".cursor/rules/evalscribe.md", text=prompts.render("workspace/cursor_rule.md.j2"))
        yield _servers(".cursor/mcp.json", "mcpServers", _server(wish, WORKSPACE))
    if wish.editors.vscode:
        yield _servers(".vscode/mcp.json", "servers", {"type": "stdio", **_server(wish, WORKSPACE)})


def _for_people(wish: Wish, prompts: Prompts) -> Iterator[StarterFile]:
    project = prompts.render("workspace/pyproject.toml.j2", project=_project(wish.folder), version=__version__)
    depends = f'dependencies = ["evalscribe[all]>={__version__}"]'
    yield StarterFile(name="pyproject.toml", text=project, needed=depends)
    yield StarterFile(name="evalscribe.toml", text=prompts.render("workspace/evalscribe.toml.j2"), told_by="")
    yield StarterFile(name=".env.example", text=prompts.render("workspace/env.example.j2"), told_by="")
    ignored = prompts.render("workspace/gitignore.j2")
    yield StarterFile(name=".gitignore", text=ignored, needed=ignored.strip(), told_by=".env")


def _for_claude(wish: Wish, skills: Mapping[str, str]) -> Iterator[StarterFile]:
    yield StarterFile(name="CLAUDE.md", text="@AGENTS.md\n", needed="@AGENTS.md", told_by="AGENTS.md")
    yield _servers(".mcp.json", "mcpServers", _server(wish))
    for name, text in sorted(skills.items()):
        yield StarterFile(name=f".claude/skills/{name}", text=text)


def _server(wish: Wish, workspace: str | None = None) -> dict[str, object]:
    """`workspace`: what the editor puts in its place; None where it starts servers there."""
    if workspace is None:
        return {"command": wish.command, "args": ["mcp"]}
    command = f"{workspace}/{wish.command}" if "/" in wish.command else wish.command
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
