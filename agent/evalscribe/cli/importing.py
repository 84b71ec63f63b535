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
    from evalscribe.app.collections.import_all import ImportPlan, import_all
    from evalscribe.cli.display import imports
    from evalscribe.cli.display.import_progress import ImportDisplay
    from evalscribe.graph.signals import run_until_signal
    from evalscribe.settings import Options
    from evalscribe.wiring import importing as wiring
    from evalscribe.wiring import settings
    from evalscribe.wiring.import_afar import readers

    chosen = wiring.ImportChoice(
        paths=tuple(paths),
        wish=wiring.Wish(provider=provider, model=model, experiment=experiment),
        options=Options(
            engine=engine, ray_address=ray_address, deployment=deployment, key_file=key_file, env_file=env_file
        ),
    )
    found = settings(chosen.options)
    plan = ImportPlan(
        name=collection,
        collection_id=collection_id,
        configured=found.collection.value,
        otherwise=wiring.collection_name(paths[0]),
    )

    async def main() -> int:
        async with readers(found, dry_run=dry_run) as crew:
            given = wiring.given(chosen, found, crew)
            with wiring.import_desk(found, dry_run=dry_run) as desk, ImportDisplay(quiet=as_json) as display:
                lanes = found.concurrency.value if crew else 1
                done = await import_all(desk, given, plan, display, lanes=lanes)
        return imports.show(done, as_json=as_json, dry_run=dry_run)

    return run_until_signal(main())
