"""`evalscribe fetch RUN -o DIR`."""

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
    from evalscribe import wiring
    from evalscribe.app.fetch import fetch as use_case
    from evalscribe.cli.display import finish
    from evalscribe.cli.display.progress import Display
    from evalscribe.graph.signals import run_until_signal
    from evalscribe.settings import Options
    from evalscribe.wiring.runs import Choice, open_source

    given = Choice(
        run=run,
        via=via,
        convex_dir=convex_dir,
        options=Options(deployment=deployment, key_file=key_file, env_file=env_file),
    )

    async def main() -> None:
        async with open_source(given, wiring.settings(given.options)) as source:
            with Display(quiet=False) as display:
                fetched = await use_case(source, lambda run_id: wiring.snapshot_writer(output, run_id), display)
        for one in fetched.unreadable:
            display.say(f"{one.eval.path}: {one.reason}")
        finish.say(f"{len(fetched.run.failures)} failed evals of run {fetched.run.id} are in {output}")

    run_until_signal(main())
    return 0
