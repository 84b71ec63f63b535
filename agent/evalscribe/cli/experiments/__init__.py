"""`evalscribe experiments …` and `evalscribe experiments runs …`: one module per command."""

import typer

from evalscribe.cli.experiments.archive import archive
from evalscribe.cli.experiments.cancel import cancel
from evalscribe.cli.experiments.compare import compare
from evalscribe.cli.experiments.create import create, update
from evalscribe.cli.experiments.inspect import list_runs, show_run
from evalscribe.cli.experiments.list import list_all
from evalscribe.cli.experiments.regression import regression_dataset
from evalscribe.cli.experiments.rescore import rescore
from evalscribe.cli.experiments.resume import resume
from evalscribe.cli.experiments.run import run
from evalscribe.cli.experiments.sample import sample
from evalscribe.cli.experiments.show import show
from evalscribe.cli.experiments.work import work

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
runs = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

app.command(short_help="Make an experiment; its id is printed.")(create)
app.command(short_help="Give an experiment a new version.")(update)
app.command("list", short_help="List the experiments.")(list_all)
app.command(short_help="Show an experiment: target, dataset, scorers, config.")(show)
app.command(short_help="Put an experiment aside; its runs stay.")(archive)
app.command(short_help="Run an experiment, in a process of its own.")(run)
app.command(short_help="Make an experiment to try things on.")(sample)
app.add_typer(runs, name="runs", help="List, show, cancel, resume, rescore and compare runs of experiments.")
runs.command("list", short_help="List the runs of an experiment.")(list_runs)
runs.command("show", short_help="Show a run: pass rate, scorers, gate, config.")(show_run)
runs.command(short_help="Cancel a run.")(cancel)
runs.command(short_help="Let a run go on that failed, was cancelled or lost its worker.")(resume)
runs.command(short_help="Score what a run gave again, without running anything.")(rescore)
runs.command(short_help="Compare two runs: verdict, rates, scorers, what flipped.")(compare)
runs.command("regression-dataset", short_help="Make a dataset and an experiment of a run's failures.")(
    regression_dataset
)
runs.command(hidden=True)(work)
