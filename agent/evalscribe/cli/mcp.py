"""Implements `evalscribe mcp`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli import options
from evalscribe.cli.interrupts import run_until_signal
from evalscribe.cli.output import aside
from evalscribe.errors import NotFoundError
from evalscribe.mcp import serve
from evalscribe.mcp.context import ServerWorkspace
from evalscribe.settings import workspace_root


def mcp(
    collection: options.Collection = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to serve. Default: the current folder.", show_default=False),
    ] = None,
) -> int:
    """Serve this folder to a coding agent over MCP, on standard input and output."""
    if folder is not None:
        try:
            os.chdir(folder)
        except OSError as error:
            raise NotFoundError(f"--folder {folder} cannot be opened as a folder: {error.strerror}") from None
    os.chdir(workspace_root(Path.cwd()))  # Agents name paths relative to the folder in which they work.
    if sys.stdin.isatty():
        aside(f"Serving {os.getcwd()} to a coding agent on standard input and output; Ctrl-C ends it.")
    run_until_signal(serve(ServerWorkspace(collection)))
    return 0
