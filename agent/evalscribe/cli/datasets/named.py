"""The argument that every command of datasets has."""

from typing import Annotated

import typer

Named = Annotated[str, typer.Argument(metavar="NAME", help="The dataset, by name or id.", show_default=False)]
