"""`evalscribe judge-eval RUBRIC DATASET`."""

from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli import options
from evalscribe.cli.judge import Collection, Fresh, Rubric

if TYPE_CHECKING:
    from evalscribe.app.judging.judge_eval import JudgeEval


def judge_eval(
    rubric: Rubric,
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="DATASET",
            help="JSONL: a subject and its label a line; or NAME[@V][:SPLIT] of a dataset.",
            show_default=False,
        ),
    ],
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…", help="rules, PROVIDER/MODEL, cascade. Default: the rubric's model.", show_default=False
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The field to compare. Default: classification, else the first choice."),
    ] = None,
    collection: Collection = None,
    where: options.Where = None,
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
    """Ask judges about subjects that people labelled: agreement, how much of it is luck, and the cost."""
    from evalscribe.app.judging.judge_eval import judge_eval as use_case
    from evalscribe.cli.display.finish import print_json
    from evalscribe.cli.display.progress import Display
    from evalscribe.errors import DataError
    from evalscribe.interrupts import run_until_signal
    from evalscribe.settings import Options
    from evalscribe.workspace import Workspace

    given = Options(
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
                found = await use_case(
                    workspace,
                    rubric,
                    dataset,
                    display,
                    judges=(judge or "").split(","),
                    label=label,
                    collection=collection,
                    where=where,
                )
        print_json(found) if as_json else _show(found)
        return 0 if any(one.judged for one in found.judges) else DataError.exit_code

    return run_until_signal(main())


def _show(found: "JudgeEval") -> None:
    from evalscribe.cli.display.finish import say
    from evalscribe.cli.display.judgements import stages
    from evalscribe.judging.calibration_text import confusion, side_by_side
    from evalscribe.text import pluralise

    number = pluralise(found.judges[0].subjects, "subject")
    say(f"{found.rubric} on {found.dataset}: {number}, by `{found.key}`\n")
    columns = {one.name: one.calibration for one in found.judges}
    for line in side_by_side(columns, {one.name: one.usage for one in found.judges}):
        say(line)
    for one in found.judges:
        say(f"\n{one.judge} in columns, people in rows:" if one.judged else f"\n{one.judge}:")
        for line in confusion(one.calibration, "") if one.judged else ():
            say(line)
        for row in one.rows:
            if row.said is None:
                say(f"line {row.line}, {row.subject}: not judged: {row.reason}")
    say(f"\nSpent now: {stages(found.spent)}")
