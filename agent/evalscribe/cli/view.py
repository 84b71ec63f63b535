"""Implements `evalscribe view`, which shows reports in the browser.

The pages are served on loopback or written as files.
"""

import os
import secrets
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli import options
from evalscribe.cli.output import hint, say
from evalscribe.cli.review import run_in_path
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.reports.reading import find_report, name_of
from evalscribe.settings import Options
from evalscribe.text import pluralise
from evalscribe.web.app import serve
from evalscribe.web.bundle import open_site, write_bundle
from evalscribe.web.report_index import Scope
from evalscribe.workspace import Workspace


def view(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|REPORT|FOLDER]",
            help="Run, report or folder to show. Default: all reports.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            metavar="N",
            help="Port of the local web server. Default: any free port.",
            show_default=False,
        ),
    ] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
    bundle: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the pages as files instead of serving them.")
    ] = None,
    reports: options.Reports = None,
) -> int:
    """Show reports in the browser: what to decide, the evidence for it, and how runs compare.

    The page is served to this machine only, until you press Ctrl-C. Your decisions are written into the reports, as
    `review label` does. With --bundle, the command writes files that open without a server and can be published.
    """
    with Workspace(Options(reports=reports)) as workspace:
        scope = _scope(workspace, subject)
        if bundle is not None:
            if port or no_open:
                raise UsageError("--bundle writes files and serves nothing: leave out --port and --no-open")
            written = write_bundle(workspace, scope, bundle)
            say(f"{pluralise(written.pages, 'page')} ({written.size / 1e6:.1f} MB) in {bundle}")
            hint(f"Next: open {bundle / 'index.html'}")
            return 0
        site = open_site(workspace, scope, token=secrets.token_urlsafe(24))
        serve(site, port, lambda url: _opened(url, no_open=no_open))
    return 0


def _scope(workspace: Workspace, subject: str | None) -> Scope:
    if subject is None:
        return Scope()
    folder = Path(subject)
    root = workspace.reports.root.resolve()
    # `isdir` is also false for a name that is too long
    if os.path.isdir(folder) and folder.resolve().is_relative_to(root):
        below = folder.resolve().relative_to(root).as_posix()
        return Scope(folder="" if below == "." else below)
    try:
        return Scope(report=name_of(workspace.reports, find_report(workspace, run_in_path(folder) or subject)))
    except NotFoundError as error:
        raise NotFoundError(f"{error}.\n`evalscribe analyze {subject}` writes a report on a run") from None


def _opened(url: str, *, no_open: bool) -> None:
    """Print the address of the page, and open it if there is a graphical browser."""
    say(f"Serving on {url}")
    hint("Ctrl-C ends it.")
    sys.stdout.flush()
    graphical = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not no_open and graphical and sys.stdout.isatty():
        webbrowser.open(url)
