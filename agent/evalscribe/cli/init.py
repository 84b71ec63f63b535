"""`evalscribe init [DIR]`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evalscribe.app.init import Placed, Wish


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
    from evalscribe.app.init import Editors, Wish
    from evalscribe.app.init import init as use_case
    from evalscribe.prompts import Prompts
    from evalscribe.wiring import init as wiring

    files = wiring.files(folder)
    there = folder.resolve()
    editors = Editors(claude=claude, cursor=cursor, vscode=vscode)
    wish = Wish(folder=there.name, command=wiring.command(there), editors=editors)
    done = use_case(files, wish, Prompts(), wiring.skills() if claude else {})
    _show(there, done)
    _show_next(there, wish)
    return 0


def _show(there: Path, done: "Sequence[Placed]") -> None:
    from evalscribe.cli.display.finish import say

    for title, state in (("Wrote", "written"), ("There already", "unchanged"), ("Kept as they are", "kept")):
        some = [one for one in done if one.state == state]
        if some:
            say(f"{title}, in {there}:")
        for one in some:
            say(f"  {one.name}{'   add to it:' if one.add else ''}")
            for line in one.add.splitlines():
                say(f"      {line}")


def _show_next(there: Path, wish: "Wish") -> None:
    from shlex import quote

    from evalscribe.cli.display.finish import say

    say()
    if wish.editors.model_dump() != dict.fromkeys(wish.editors.model_dump(), False):
        say(f"Editors start `{wish.command} mcp`, and must find it. Open the folder in a window of its own.")
    else:
        say("For coding agents also: --claude, --cursor, --vscode.")
    say("Keys go into .env, made from .env.example; rules need none.")
    go = "" if there == Path.cwd() else f"cd {quote(str(there))} && "
    say(f"Next: {go}evalscribe import sample")
