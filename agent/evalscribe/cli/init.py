"""`evalscribe init [DIR]`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evalscribe.app.init import Initialised


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
    from evalscribe.app.init import init as use_case

    done = use_case(folder, claude=claude, cursor=cursor, vscode=vscode)
    _show(done)
    _show_next(done, for_editors=claude or cursor or vscode)
    return 0


def _show(done: "Initialised") -> None:
    from evalscribe.cli.display.finish import say

    for title, state in (("Wrote", "written"), ("There already", "unchanged"), ("Kept as they are", "kept")):
        some = [one for one in done.files if one.state == state]
        if some:
            say(f"{title}, in {done.folder}:")
        for one in some:
            say(f"  {one.name}{'   add to it:' if one.add else ''}")
            for line in one.add.splitlines():
                say(f"      {line}")


def _show_next(done: "Initialised", *, for_editors: bool) -> None:
    from shlex import quote

    from evalscribe.cli.display.finish import say

    say()
    if for_editors:
        say(f"Editors start `{done.command} mcp`, and must find it. Open the folder in a window of its own.")
    else:
        say("For coding agents also: --claude, --cursor, --vscode.")
    say("Keys go into .env, made from .env.example; rules need none.")
    go = "" if done.folder == Path.cwd() else f"cd {quote(str(done.folder))} && "
    say(f"Next: {go}evalscribe import sample")
