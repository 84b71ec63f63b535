"""`evalscribe experiments …` and `evalscribe experiments runs …`: one module per command."""

import typer

from evalscribe.cli.experiments.archive import archive
from evalscribe.cli.experiments.create import create, update
from evalscribe.cli.experiments.list import list_all
from evalscribe.cli.experiments.show import show

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
runs = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

app.command(short_help="Make an experiment; its id is printed.")(create)
app.command(short_help="Give an experiment a new version.")(update)
app.command("list", short_help="List the experiments.")(list_all)
app.command(short_help="Show an experiment: target, dataset, scorers, config.")(show)
app.command(short_help="Put an experiment aside; its runs stay.")(archive)
app.add_typer(runs, name="runs", help="List, show, cancel, resume, rescore and compare runs of experiments.")
