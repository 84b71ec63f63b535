"""The argument that every command of datasets has, and options that several share."""

from typing import Annotated

import typer

Named = Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, by id or name.", show_default=False)]
Train = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Of the items for train. Default: 0.2.", show_default=False)
]
Dev = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Of the items for dev. Default: 0.4.", show_default=False)
]
Test = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Of the items for test. Default: 0.4.", show_default=False)
]
Seed = Annotated[int, typer.Option(metavar="N", help="Another one deals them out in another way.")]
