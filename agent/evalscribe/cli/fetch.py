"""`evalscribe fetch RUN -o DIR`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli import options


def fetch(
    run: options.RunArgument,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The snapshot's folder.")],
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
    via: options.Via = "http",
    convex_dir: options.ConvexDir = None,
) -> int:
    """Write a run into a snapshot folder, redacted, so that an analysis can be repeated offline."""
    from evalscribe.app.fetch import fetch as use_case
    from evalscribe.app.runs import open_source
    from evalscribe.cli.display import finish
    from evalscribe.cli.display.progress import Display
    from evalscribe.interrupts import run_until_signal
    from evalscribe.settings import Options
    from evalscribe.sources.snapshot import SnapshotWriter
    from evalscribe.workspace import Workspace

    given = Options(deployment=deployment, key_file=key_file, env_file=env_file, via=via, convex_dir=convex_dir)

    async def main() -> None:
        with Workspace(given) as workspace:
            async with open_source(workspace, run) as source:
                with Display(quiet=False) as display:
                    fetched = await use_case(source, partial(SnapshotWriter, output), display)
        for one in fetched.unreadable:
            display.say(f"{one.eval.path}: {one.reason}")
        finish.say(f"{len(fetched.run.failures)} failed evals of run {fetched.run.id} are in {output}")

    run_until_signal(main())
    return 0
