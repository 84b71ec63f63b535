"""`evalscribe export [RUN…] [-o FILE]`."""

from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli import options


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
    from evalscribe.app.collections.choice import chosen
    from evalscribe.app.collections.exporting import lines
    from evalscribe.cli.display import finish
    from evalscribe.cli.display.line_file import write
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        one = chosen(workspace, collection)
        number = write(lines(workspace.store.runs, one, runs or ()), output, json=True)
    if output is not None:
        finish.say(f"{number} lines of {one.name} are in {output}")
    return 0
