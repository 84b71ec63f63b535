"""The argument that every command of datasets has."""

from typing import Annotated

import typer

Named = Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, by id or name.", show_default=False)]
