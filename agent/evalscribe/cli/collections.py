"""`evalscribe collections list|show|remove`."""

from typing import Annotated

import typer

from evalscribe.cli import options

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
Named = Annotated[
    str | None,
    typer.Argument(metavar="COLLECTION", help="By name or id. Default: as --collection.", show_default=False),
]


@app.command("list")
def list_all(as_json: options.Json = False) -> int:
    """List the collections with what they hold."""
    from evalscribe.app.collections import Collections, Shown
    from evalscribe.cli import finish
    from evalscribe.cli.imports import called
    from evalscribe.prose import counted
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.importing import shelves

    with shelves(settings(Options())) as (shelf, archive):
        there = tuple(Shown(id=one.id, name=one.name, runs=archive.runs(one.id)) for one in shelf.collections())
    if as_json:
        finish.print_json(Collections(collections=there))
        return 0
    for one in there:
        evals = sum(run.total for run in one.runs)
        finish.say(f"{called(one)}: {counted(len(one.runs), 'run')}, {counted(evals, 'eval')}")
    if not there:
        finish.say("There is no collection yet: `evalscribe import FILE` makes one.")
    return 0


@app.command()
def show(collection: Named = None, as_json: options.Json = False) -> int:
    """Show the runs of a collection."""
    from evalscribe.app.collections import Shown, chosen
    from evalscribe.cli import finish, imports
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.importing import shelves

    found = settings(Options())
    with shelves(found) as (shelf, archive):
        one = chosen(shelf, collection, found.collection.value)
        runs = archive.runs(one.id)
    if as_json:
        finish.print_json(Shown(id=one.id, name=one.name, runs=runs))
        return 0
    finish.say(imports.called(one))
    for run in runs:
        finish.say(f"  {imports.run_line(run)}")
    return 0


@app.command()
def remove(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the beginning of it.", show_default=False)],
    collection: options.Collection = None,
) -> int:
    """Take a run out of a collection. Its reports stay, and so does the run in other collections."""
    from evalscribe.app.collections import chosen
    from evalscribe.app.exporting import one_run
    from evalscribe.cli import finish
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.importing import shelves

    found = settings(Options())
    with shelves(found) as (shelf, archive):
        one = chosen(shelf, collection, found.collection.value)
        gone = one_run(archive.runs(one.id), run, one)
        archive.remove(one.id, gone.id)
    finish.say(
        f"Run {gone.id} is no longer in {one.name}; `evalscribe gc` forgets it unless it is in another or was analysed."
    )
    return 0
