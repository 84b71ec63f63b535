"""`evalscribe collections list|show|remove|delete`, `evalscribe export` and `evalscribe gc`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli import options, output
from evalscribe.cli import output as finish
from evalscribe.cli.output import write_lines
from evalscribe.errors import UsageError
from evalscribe.text import pluralise
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.collections.choice import DeletedCounts


app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
Named = Annotated[
    str | None,
    typer.Argument(metavar="COLLECTION", help="By name or id. Default: as --collection.", show_default=False),
]


@app.command("list")
def list_all(as_json: options.Json = False) -> int:
    """List the collections with what they hold."""
    from evalscribe.cli.importing import collection_line
    from evalscribe.collections.choice import Collections, CollectionSummary

    with Workspace() as workspace:
        collections = workspace.store.collections.collections()
        there = tuple(
            CollectionSummary(id=one.id, name=one.name, runs=workspace.store.runs.runs(one.id)) for one in collections
        )
    if as_json:
        output.print_json(Collections(collections=there))
        return 0
    for one in there:
        evals = sum(run.total for run in one.runs)
        output.say(f"{collection_line(one)}: {pluralise(len(one.runs), 'run')}, {pluralise(evals, 'eval')}")
    if not there:
        output.say("There is no collection yet: `evalscribe import FILE` makes one.")
    return 0


@app.command()
def show(collection: Named = None, as_json: options.Json = False) -> int:
    """Show the runs of a collection."""
    from evalscribe.cli import importing, output
    from evalscribe.collections.choice import CollectionSummary, choose_collection

    with Workspace() as workspace:
        one = choose_collection(workspace, collection)
        runs = workspace.store.runs.runs(one.id)
    if as_json:
        output.print_json(CollectionSummary(id=one.id, name=one.name, runs=runs))
        return 0
    output.say(importing.collection_line(one))
    for run in runs:
        output.say(f"  {importing.run_line(run)}")
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
    from evalscribe.collections.choice import choose_collection, one_run

    if every == bool(run):
        raise UsageError("name the runs to take out, or give --all")
    with Workspace() as workspace:
        one = choose_collection(workspace, collection)
        there = workspace.store.runs.runs(one.id)
        gone = there if every else tuple(dict.fromkeys(one_run(there, name, one) for name in run or ()))
        for each in gone:
            workspace.store.runs.remove(one.id, each.id)
    for each in gone:
        output.say(f"Run {each.id} is no longer in {one.name}")
    output.say("`evalscribe gc` forgets runs that are in no collection and were not analysed.")
    return 0


@app.command()
def delete(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help="By name or id.", show_default=False)],
) -> int:
    """Delete a collection that has no runs, rubrics, label sets or result sets."""
    from evalscribe.collections.choice import choose_collection

    with Workspace() as workspace:
        one = choose_collection(workspace, collection)
        workspace.store.collections.remove_collection(one.id)
    output.say(f"There is no collection {one.name} any more.")
    return 0


def export(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Default: every run.", show_default=False)
    ] = None,
    collection: options.Collection = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Default: standard output. FILE.gz is packed."),
    ] = None,
) -> int:
    """Write runs of a collection as JSON lines, which `import` reads again."""
    from evalscribe.collections.choice import choose_collection, export_run_lines

    with Workspace() as workspace:
        one = choose_collection(workspace, collection)
        number = write_lines(export_run_lines(workspace.store.runs, one, runs or ()), output, json=True)
    if output is not None:
        finish.say(f"{number} lines of {one.name} are in {output}")
    return 0


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be forgotten; nothing is.")] = False,
    as_json: options.Json = False,
) -> int:
    """Forget imported runs that no collection has, evidence of evals that are gone, and texts that nothing refers to.

    A run that was analysed, judged or labelled stays, and so do reports, verdicts, results, labels and rubrics. Other
    commands may work meanwhile.
    """
    from evalscribe.collections import choice as use_case

    with Workspace() as workspace:
        done = use_case.collect_garbage(workspace.store.runs, dry_run=dry_run)
    if as_json:
        output.print_json(done)
        return 0
    for line in _lines(done):
        output.say(line)
    return 0


def _lines(done: "DeletedCounts") -> Iterator[str]:
    found = [one for one in done.forgotten if one.rows]
    would = "Would forget" if done.dry_run else "Forgot"
    for one in found:
        yield f"{would} {one.rows:,} of {one.kind}, {_size(one.bytes)}"
    if not found:
        yield "There is nothing to forget."
    if done.given_back:
        yield f"The store is {_size(done.given_back)} smaller."


def _size(held: int) -> str:
    return f"{held / 1e6:,.1f} MB" if held >= 1e5 else f"{held:,} bytes"
