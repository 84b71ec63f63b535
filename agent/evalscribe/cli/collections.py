"""`evalscribe collections list|show|remove|delete`."""

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
    from evalscribe.app.collections.choice import Collections, Shown
    from evalscribe.cli.display import finish
    from evalscribe.cli.display.imports import called
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        collections = workspace.store.collections.collections()
        there = tuple(Shown(id=one.id, name=one.name, runs=workspace.store.runs.runs(one.id)) for one in collections)
    if as_json:
        finish.print_json(Collections(collections=there))
        return 0
    for one in there:
        evals = sum(run.total for run in one.runs)
        finish.say(f"{called(one)}: {pluralise(len(one.runs), 'run')}, {pluralise(evals, 'eval')}")
    if not there:
        finish.say("There is no collection yet: `evalscribe import FILE` makes one.")
    return 0


@app.command()
def show(collection: Named = None, as_json: options.Json = False) -> int:
    """Show the runs of a collection."""
    from evalscribe.app.collections.choice import Shown, chosen
    from evalscribe.cli.display import finish, imports
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        one = chosen(workspace, collection)
        runs = workspace.store.runs.runs(one.id)
    if as_json:
        finish.print_json(Shown(id=one.id, name=one.name, runs=runs))
        return 0
    finish.say(imports.called(one))
    for run in runs:
        finish.say(f"  {imports.run_line(run)}")
    return 0


@app.command()
def remove(
    run: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN...", help="Ids of runs, or the beginnings of them.", show_default=False),
    ] = None,
    collection: options.Collection = None,
    every: Annotated[bool, typer.Option("--all", help="All of its runs.")] = False,
) -> int:
    """Take runs out of a collection. Their reports stay, and so do the runs in other collections."""
    from evalscribe.app.collections.choice import chosen
    from evalscribe.app.collections.exporting import one_run
    from evalscribe.cli.display import finish
    from evalscribe.errors import UsageError
    from evalscribe.workspace import Workspace

    if every == bool(run):
        raise UsageError("name the runs to take out, or give --all")
    with Workspace() as workspace:
        one = chosen(workspace, collection)
        there = workspace.store.runs.runs(one.id)
        gone = there if every else tuple(dict.fromkeys(one_run(there, name, one) for name in run or ()))
        for each in gone:
            workspace.store.runs.remove(one.id, each.id)
    for each in gone:
        finish.say(f"Run {each.id} is no longer in {one.name}")
    finish.say("`evalscribe gc` forgets runs that are in no collection and were not analysed.")
    return 0


@app.command()
def delete(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help="By name or id.", show_default=False)],
) -> int:
    """Delete a collection that has no runs, rubrics, label sets or result sets."""
    from evalscribe.app.collections.choice import chosen
    from evalscribe.cli.display import finish
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        one = chosen(workspace, collection)
        workspace.store.collections.remove_collection(one.id)
    finish.say(f"There is no collection {one.name} any more.")
    return 0
