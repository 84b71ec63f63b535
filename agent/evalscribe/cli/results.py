"""`evalscribe results list|show`."""

from typing import Annotated

import typer

from evalscribe.cli import options, output
from evalscribe.model.result import Result, ResultSetSummary
from evalscribe.workspace import Workspace

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)


@app.command("list", short_help="List result sets and how far they are.")
def list_sets(
    prefix: Annotated[
        str | None, typer.Argument(metavar="PREFIX", help="Only sets below this name.", show_default=False)
    ] = None,
    collection: options.Collection = None,
    as_json: options.Json = False,
) -> int:
    """List the result sets of a collection: how many requests are answered, failed or not asked yet."""
    from pydantic import RootModel

    from evalscribe.collections.choice import choose_collection
    from evalscribe.collections.requests import list_result_sets
    from evalscribe.judging.result_text import set_line

    with Workspace() as workspace:
        sets = list_result_sets(workspace.store.results, choose_collection(workspace, collection), prefix)
    if as_json:
        output.print_json(RootModel[tuple[ResultSetSummary, ...]](tuple(ResultSetSummary.of(*one) for one in sets)))
        return 0
    for made, counts in sets:
        output.say(set_line(made, counts))
    if not sets:
        output.say("No result sets yet: Client.submit_llm_requests makes them.")
    return 0


@app.command(short_help="Show the results of a set.")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The result set's name or id.", show_default=False)],
    incomplete: Annotated[bool, typer.Option("--all", help="Also requests without an answer, and why.")] = False,
    collection: options.Collection = None,
    as_json: options.Json = False,
) -> int:
    """Show the results of a set: what was answered, and whether what it cites holds."""
    from pydantic import RootModel

    from evalscribe.collections.choice import choose_collection
    from evalscribe.collections.requests import complete_results, result_set_named
    from evalscribe.judging.result_text import stored_result_text

    with Workspace() as workspace:
        made = result_set_named(workspace.store.results, choose_collection(workspace, collection), name)
        results = complete_results(workspace.store.results, made, include_incomplete=incomplete)
    if as_json:
        output.print_json(RootModel[tuple[Result, ...]](results))
        return 0
    for result in results:
        output.say(f"{stored_result_text(result)}\n")
    return 0
