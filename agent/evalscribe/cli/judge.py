"""`evalscribe judge RUBRIC SUBJECT…`."""

from typing import Annotated

import typer

from evalscribe.cli import options

Rubric = Annotated[
    str, typer.Argument(metavar="RUBRIC", help="A rubric: NAME, NAME@VERSION or a YAML file.", show_default=False)
]
Collection = Annotated[str, typer.Option(metavar="ID", help="The collection that the rubric belongs to.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Ask again what is already known.")]


def judge(
    rubric: Rubric,
    subjects: Annotated[
        list[str],
        typer.Argument(
            metavar="SUBJECT",
            help="JSON files of agent runs; runs, all failed evals of each; or a run and names of its evals.",
            show_default=False,
        ),
    ],
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="rules|PROVIDER/MODEL", help="Who judges. Default: the rubric's model.", show_default=False
        ),
    ] = None,
    cascade: Annotated[bool, typer.Option("--cascade", help="A cheap model first, as evalscribe.toml says.")] = False,
    collection: Collection = "default",
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
    """Judge agent runs, or failed evals of runs, by a rubric."""
    from evalscribe.app.estimates import likely
    from evalscribe.app.judge import JudgeDesk, estimated
    from evalscribe.app.judge import judge as use_case
    from evalscribe.cli import judgements
    from evalscribe.cli.progress import Display
    from evalscribe.graph.signals import run_until_signal
    from evalscribe.prose import counted
    from evalscribe.settings import Options
    from evalscribe.wiring.judging import CASCADE, JudgeChoice, open_room

    given = JudgeChoice(
        rubric=rubric,
        collection=collection,
        fresh=fresh,
        batch=batch,
        via=via or "http",
        convex_dir=convex_dir,
        options=Options(
            judge=judge,
            engine=engine,
            ray_address=ray_address,
            budget=budget,
            concurrency=concurrency,
            max_tokens=max_tokens,
            deployment=deployment,
            key_file=key_file,
            env_file=env_file,
        ),
    )

    async def main() -> int:
        async with open_room(given) as room:
            chosen = room.judge(CASCADE if cascade else judge)
            with Display(quiet=False) as display:
                for note in room.notes():
                    display.say(note)
                waiting = await room.finder(display).found(subjects)
                if (estimate := estimated(chosen, waiting)).input_tokens:
                    number = counted(len(waiting), "subject")
                    display.say(f"{chosen.id} for {number}: {likely(estimate)}, less what is known")
                desk = JudgeDesk(judge=chosen, knew=room.knew, spent=room.spent, concurrency=room.concurrency)
                found = await use_case(desk, waiting, display)
        return judgements.show(found, as_json=as_json, cascade=cascade)

    return run_until_signal(main())
