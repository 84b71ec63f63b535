"""`evalscribe explain RUN [EVAL]`."""

from typing import Annotated

import typer

from evalscribe.cli import options, output
from evalscribe.cli.progress import Display
from evalscribe.errors import UsageError
from evalscribe.interrupts import run_until_signal
from evalscribe.settings import Options
from evalscribe.workspace import Workspace


def explain(
    run: options.RunArgument,
    eval: Annotated[
        str | None, typer.Argument(help="The eval: `category/name`, its name or id. Not needed with an eval's URL.")
    ] = None,
    judge: options.Judge = None,
    rubric: options.Rubric = None,
    cascade: options.Cascade = False,
    reports: options.Reports = None,
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
    """Explain one failure in full: the same analysis, every quotation, nothing written."""
    from evalscribe.analysis.explain import explain as use_case
    from evalscribe.collections.runs import eval_named

    name = eval or eval_named(run)
    if name is None:
        raise UsageError("which eval? `evalscribe explain RUN category/name`, or an eval's URL")
    given = Options(
        judge=judge,
        engine=engine,
        ray_address=ray_address,
        budget=budget,
        max_tokens=max_tokens,
        reports=reports,
        deployment=deployment,
        key_file=key_file,
        env_file=env_file,
        via=via,
        convex_dir=convex_dir,
    )

    async def main() -> None:
        async with Workspace(given) as workspace:
            with Display(quiet=False) as display:
                explained = await use_case(workspace, run, name, display, rubric=rubric, cascade=cascade)
        output.print_explanation(explained, as_json=as_json)

    run_until_signal(main())
    return 0
