"""`evalscribe gc`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli import options

if TYPE_CHECKING:
    from evalscribe.app.collections.gc import Swept


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be forgotten; nothing is.")] = False,
    as_json: options.Json = False,
) -> int:
    """Forget imported runs that no collection has, evidence of evals that are gone, and texts that nothing refers to.

    A run that was analysed, judged or labelled stays, and so do reports, verdicts, results, labels and rubrics. Other
    commands may work meanwhile.
    """
    from evalscribe.app.collections import gc as use_case
    from evalscribe.cli.display import finish
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        done = use_case.gc(workspace.store.runs, dry_run=dry_run)
    if as_json:
        finish.print_json(done)
        return 0
    for line in _lines(done):
        finish.say(line)
    return 0


def _lines(done: "Swept") -> Iterator[str]:
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
