"""`evalscribe import PATH…`."""

from typing import Annotated

import typer

from evalscribe.cli import options

Experiment = Annotated[
    str | None,
    typer.Option(metavar="EXPERIMENT", help="The runs' experiment: only runs of one experiment are compared."),
]


def import_runs(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH|URL", help="Files, folders of files, runs by URL, or `sample`.", show_default=False
        ),
    ],
    collection: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The collection, made where it is not there. Default: the file's name."),
    ] = None,
    collection_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The collection's id. Default: made of its name.")
    ] = None,
    provider: options.Provider = None,
    model: options.Model = None,
    experiment: Experiment = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and count, store nothing.")] = False,
    engine: options.Engine = None,
    ray_address: options.RayAddress = None,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
    as_json: options.Json = False,
) -> int:
    """Bring runs into a collection: tau-bench, Inspect, JUnit XML, Convex runs, JSON lines."""
    from evalscribe.app.import_all import import_all
    from evalscribe.cli.display import imports
    from evalscribe.cli.display.import_progress import ImportDisplay
    from evalscribe.interrupts import run_until_signal
    from evalscribe.settings import Options
    from evalscribe.workspace import Workspace

    given = Options(engine=engine, ray_address=ray_address, deployment=deployment, key_file=key_file, env_file=env_file)

    async def main() -> int:
        with Workspace(given) as workspace, ImportDisplay(quiet=as_json) as display:
            done = await import_all(
                workspace,
                paths,
                display,
                collection=collection,
                collection_id=collection_id,
                provider=provider,
                model=model,
                experiment=experiment,
                dry_run=dry_run,
            )
        return imports.show(done, as_json=as_json, dry_run=dry_run)

    return run_until_signal(main())
