"""Every command by its name."""

from typing import Annotated

import typer

from evalscribe import __version__
from evalscribe.cli import reports
from evalscribe.cli.analyze import analyze
from evalscribe.cli.doctor import doctor
from evalscribe.cli.explain import explain
from evalscribe.cli.fetch import fetch
from evalscribe.cli.recurring import recurring
from evalscribe.cli.schema import schema

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"evalscribe {__version__}")
        raise typer.Exit


@app.callback()
def evalscribe(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find out why a model failed an eval run, and whose fault it was."""


app.command()(analyze)
app.command()(explain)
app.command()(fetch)
app.add_typer(reports.app, name="reports", help="List, show, check and parse reports.")
app.command()(recurring)
app.command()(doctor)
app.command()(schema)
