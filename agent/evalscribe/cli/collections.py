"""Implements `evalscribe collections list|show|use|remove|delete`, `results list|show`, `export` and `gc`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from pydantic import RootModel

from evalscribe.cli import options, output
from evalscribe.cli.output import hint, write_lines
from evalscribe.collections import lookup
from evalscribe.collections.lookup import (
    Collections,
    CollectionSummary,
    DeletedCounts,
    choose_collection,
    export_run_lines,
    find_run,
)
from evalscribe.collections.requests import complete_results, list_result_sets, result_set_named
from evalscribe.errors import UsageError
from evalscribe.ids import model_folder
from evalscribe.judging.result_text import set_line, stored_result_text
from evalscribe.model.result import Result, ResultSetSummary
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Run
from evalscribe.settings.config import CONFIG_NAME, save_setting
from evalscribe.text import one_line, pluralise
from evalscribe.workspace import Workspace

Named = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="Name or id of a collection. Default: the configured or only collection.",
        show_default=False,
    ),
]


def list_all(as_json: options.Json = False) -> int:
    """List the collections and their contents."""
    with Workspace() as workspace:
        collections = workspace.store.collections.collections()
        summaries = tuple(
            CollectionSummary(id=collection.id, name=collection.name, runs=workspace.store.runs.runs(collection.id))
            for collection in collections
        )
    if as_json:
        output.print_json(Collections(collections=summaries))
        return 0
    for summary in summaries:
        evals = sum(run.total for run in summary.runs)
        output.say(f"{collection_line(summary)}: {pluralise(len(summary.runs), 'run')}, {pluralise(evals, 'eval')}")
    if not summaries:
        output.say("There is no collection yet: `evalscribe import FILE` creates one.")
    return 0


def show(collection: Named = None, as_json: options.Json = False) -> int:
    """Show the runs of a collection."""
    with Workspace() as workspace:
        collection_record = choose_collection(workspace, collection)
        runs = workspace.store.runs.runs(collection_record.id)
    if as_json:
        output.print_json(CollectionSummary(id=collection_record.id, name=collection_record.name, runs=runs))
        return 0
    output.say(collection_line(collection_record))
    for run in runs:
        output.say(f"  {run_line(run)}")
    return 0


def use(
    collection: Annotated[str, typer.Argument(metavar="NAME", help="Name or id of a collection.", show_default=False)],
) -> int:
    """Make a collection the default, and store this choice in evalscribe.toml."""
    with Workspace() as workspace:
        collection_record = choose_collection(workspace, collection)
        path = save_setting(workspace.settings.root, "collection_id", collection_record.id)
        origin = workspace.settings.collection
    output.say(f"{collection_line(collection_record)} is the default collection: {path}")
    if origin.value not in (None, collection_record.id) and origin.origin.where != CONFIG_NAME:
        output.hint(f"Note: {origin.value!r} from {origin.origin.where} takes precedence.")
    return 0


def remove(
    run: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...", help="Runs to remove: ids, or the first characters of ids.", show_default=False
        ),
    ] = None,
    collection: options.Collection = None,
    every: Annotated[bool, typer.Option("--all", help="Remove all runs of the collection.")] = False,
) -> int:
    """Remove runs from a collection.

    The runs stay in other collections, and their reports are kept.
    """
    if every == bool(run):
        raise UsageError("name the runs to remove, or give --all")
    with Workspace() as workspace:
        collection_record = choose_collection(workspace, collection)
        runs = workspace.store.runs.runs(collection_record.id)
        removed = runs if every else tuple(dict.fromkeys(find_run(runs, name, collection_record) for name in run or ()))
        for item in removed:
            workspace.store.runs.remove(collection_record.id, item.id)
    for item in removed:
        output.say(f"Run {item.id} is no longer in {collection_record.name}")
    output.hint("`evalscribe gc` deletes runs that are in no collection and were not analysed.")
    return 0


def delete(
    collection: Annotated[str, typer.Argument(metavar="NAME", help="Name or id of a collection.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Delete the collection without asking.")] = False,
) -> int:
    """Delete a collection with its rubrics, labels and results, after asking.

    Its runs stay in the store; `gc` deletes those that nothing else uses.
    """
    with Workspace() as workspace:
        collection_record = choose_collection(workspace, collection)
        contents = workspace.store.collections.contents(collection_record.id)
        note = "; runs stay in the store until `evalscribe gc`"
        if not output.may_delete(f"collection {collection_line(collection_record)}", contents, yes=yes, note=note):
            return 0
        workspace.store.collections.remove_collection(collection_record.id)
    if contents:
        output.say(f"Deleted: {contents}.")
    output.say(f"The collection {collection_record.name} is deleted.")
    return 0


def export(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs to write: ids, or the first characters of ids. Default: all runs.",
            show_default=False,
        ),
    ] = None,
    collection: options.Collection = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write; compressed if it ends in .gz. Default: standard output.",
        ),
    ] = None,
) -> int:
    """Write the runs of a collection as JSON lines, which `import` can read."""
    with Workspace() as workspace:
        collection_record = choose_collection(workspace, collection)
        number = write_lines(export_run_lines(workspace.store.runs, collection_record, runs or ()), output, json=True)
    if output is not None:
        hint(f"{number} lines of {collection_record.name} are in {output}")
    return 0


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted; delete nothing.")] = False,
    as_json: options.Json = False,
) -> int:
    """Free space by deleting data that nothing uses.

    Deletes runs that are in no collection, evidence of deleted evals, and unreferenced texts. Runs that were analysed,
    judged or labelled are kept, and so are reports, verdicts, results, labels and rubrics. Other commands can run at
    the same time.
    """
    with Workspace() as workspace:
        deleted = lookup.collect_garbage(workspace.store.runs, dry_run=dry_run)
    if as_json:
        output.print_json(deleted)
        return 0
    for line in _lines(deleted):
        output.say(line)
    return 0


def _lines(counts: DeletedCounts) -> Iterator[str]:
    items = [item for item in counts.forgotten if item.rows]
    would = "Would delete" if counts.dry_run else "Deleted"
    for item in items:
        yield f"{would} {item.kind}: {item.rows:,} ({_size(item.bytes)})"
    if not items:
        yield "There is nothing to delete."
    if counts.given_back:
        yield f"The store is {_size(counts.given_back)} smaller."


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} bytes"


def collection_line(collection: Collection | CollectionSummary) -> str:
    """Format the name of a collection. If the id differs from the name, append the id."""
    name, id = one_line(collection.name), one_line(collection.id)
    return name if name == id else f"{name} (id {id})"


def run_line(run: Run) -> str:
    """Format a run on one line, with the number of evals by status."""
    counts = f"{run.passed} of {pluralise(run.total, 'eval')} passed"
    other_counts = [
        f"{number} {word}" for number, word in ((run.failed, "failed"), (run.incomplete, "incomplete")) if number
    ]
    model = "/".join(model_folder(run.provider, run.model))
    partly = "; INCOMPLETE: its import has not completed; import it again" if run.status == "importing" else ""
    return one_line(f"{run.id} {model}, {run.experiment}: {', '.join([counts, *other_counts])}{partly}")


def list_sets(
    prefix: Annotated[
        str | None,
        typer.Argument(
            metavar="PREFIX", help="List only result sets whose names start with PREFIX.", show_default=False
        ),
    ] = None,
    collection: options.Collection = None,
    as_json: options.Json = False,
) -> int:
    """List result sets, with their counts of answered, failed and open requests."""
    with Workspace() as workspace:
        sets = list_result_sets(workspace.store.results, choose_collection(workspace, collection), prefix)
    if as_json:
        output.print_json(RootModel[tuple[ResultSetSummary, ...]](tuple(ResultSetSummary.of(*item) for item in sets)))
        return 0
    for result_set, counts in sets:
        output.say(set_line(result_set, counts))
    if not sets:
        output.say("No result sets yet: Client.submit_llm_requests creates result sets.")
    return 0


def show_results(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name or id of a result set.", show_default=False)],
    incomplete: Annotated[
        bool, typer.Option("--all", help="Include requests without an answer, with the reason why there is no answer.")
    ] = False,
    collection: options.Collection = None,
    as_json: options.Json = False,
) -> int:
    """Show the results of a result set, and whether their citations were verified."""
    with Workspace() as workspace:
        result_set = result_set_named(workspace.store.results, choose_collection(workspace, collection), name)
        results = complete_results(workspace.store.results, result_set, include_incomplete=incomplete)
    if as_json:
        output.print_json(RootModel[tuple[Result, ...]](results))
        return 0
    for result in results:
        output.say(f"{stored_result_text(result)}\n")
    return 0
