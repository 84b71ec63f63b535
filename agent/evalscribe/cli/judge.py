"""`evalscribe judge RUBRIC SUBJECT…`, or `evalscribe judge RUBRIC --collection C`."""

from typing import Annotated

import typer

from evalscribe.cli import options

Rubric = Annotated[
    str, typer.Argument(metavar="RUBRIC", help="A rubric: NAME, NAME@VERSION or a YAML file.", show_default=False)
]
Collection = Annotated[
    str | None,
    typer.Option(
        metavar="COLLECTION",
        help="A collection, by name or id: whose rubric, and whose agent runs. Default: everybody's rubrics.",
        show_default=False,
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Ask again what is already known.")]


def judge(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUBRIC [SUBJECT]...",
            help="A rubric (NAME, NAME@VERSION, a YAML file), then JSON files of agent runs; runs, all failed evals of "
            "each; or a run and names of its evals. Without SUBJECT: the agent runs of a collection.",
            show_default=False,
        ),
    ] = None,
    rubric: Annotated[
        str | None, typer.Option(metavar="RUBRIC", help="The rubric, in place of the first name.", show_default=False)
    ] = None,
    where: options.Where = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="rules|PROVIDER/MODEL", help="Who judges. Default: the rubric's model.", show_default=False
        ),
    ] = None,
    cascade: Annotated[bool, typer.Option("--cascade", help="A cheap model first, as evalscribe.toml says.")] = False,
    collection: Collection = None,
    fresh: Fresh = False,
    batch: options.Batch = False,
    concurrency: options.Concurrency = None,
    engine: options.Engine = None,
    ray_address: options.RayAddress = None,
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = None,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
    via: options.Via = "http",
    convex_dir: options.ConvexDir = None,
    as_json: options.Json = False,
) -> int:
    """Judge agent runs, failed evals of runs, or those of a collection, by a rubric."""
    from evalscribe.app.judging.builder import CASCADE
    from evalscribe.app.judging.judge import judge as use_case
    from evalscribe.cli.display import judgements
    from evalscribe.cli.display.progress import Display
    from evalscribe.errors import UsageError
    from evalscribe.interrupts import run_until_signal
    from evalscribe.settings import Options
    from evalscribe.workspace import Workspace

    chosen_rubric, subjects = _named(names or [], rubric, from_collection=bool(collection or where))
    if where and subjects:
        raise UsageError("--where chooses among the agent runs of a collection: leave out the subjects")
    given = Options(
        judge=judge,
        engine=engine,
        ray_address=ray_address,
        budget=budget,
        concurrency=concurrency,
        max_tokens=max_tokens,
        deployment=deployment,
        key_file=key_file,
        env_file=env_file,
        via=via or "http",
        convex_dir=convex_dir,
        batch=batch,
        fresh=fresh,
    )

    async def main() -> int:
        async with Workspace(given) as workspace:
            with Display(quiet=False) as display:
                done = await use_case(
                    workspace,
                    chosen_rubric,
                    subjects,
                    display,
                    judge=CASCADE if cascade else judge,
                    collection=collection,
                    where=where,
                )
        assert done.judgements is not None, "only a dry run has none"
        return judgements.show(done.judgements, as_json=as_json, cascade=cascade)

    return run_until_signal(main())


def _named(names: list[str], rubric: str | None, *, from_collection: bool) -> tuple[str, list[str]]:
    """The rubric and the subjects. Raises `UsageError` where one is missing."""
    from evalscribe.errors import UsageError

    if rubric is None and not names:
        raise UsageError("judge by which rubric? `evalscribe rubric list` shows what there is")
    by, subjects = (rubric, names) if rubric is not None else (names[0], names[1:])
    if not subjects and not from_collection:
        raise UsageError("judge what? Name runs or files, or a collection with --collection")
    return by, subjects
