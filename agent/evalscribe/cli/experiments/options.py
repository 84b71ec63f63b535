"""Arguments and options that several commands of experiments share, each said once."""

from typing import Annotated

import typer

from evalscribe.cli import options

ExperimentArgument = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="An experiment, by id or name.", show_default=False)
]
RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run, by id, the beginning of it, or name.", show_default=False),
]
RunOfExperiment = Annotated[
    list[str],
    typer.Argument(
        metavar="[EXPERIMENT] RUN",
        help="A run, by id, the beginning of it, or name; its experiment may stand before it.",
        show_default=False,
    ),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for its end, and exit as its gate says.")]
Timeout = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Wait at most so long, such as 15m; the run goes on.", show_default=False),
]
FailOnGate = Annotated[
    bool | None,
    typer.Option(
        "--fail-on-gate/--no-fail-on-gate",
        help="Exit 2 where the gate fails, the default. Also --fail-on-gate=false.",
        show_default=False,
    ),
]
Budget = Annotated[
    float | None, typer.Option(min=0, metavar="USD", help="Spend at most this in all. Default: 5.", show_default=False)
]
EnvFile = options.EnvFile
MaxTokens = options.MaxTokens
