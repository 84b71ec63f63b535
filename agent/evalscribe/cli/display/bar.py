"""A bar on standard error where there is a terminal, for as long as it is open."""

import sys
from types import TracebackType
from typing import Self

from rich.progress import Progress, ProgressColumn

from evalscribe.cli.display.console import console


class Bar:
    """What displays of all that takes long share; `quiet` tells nothing."""

    def __init__(self, *columns: ProgressColumn, quiet: bool = False) -> None:
        self._console = console(sys.stderr, quiet=quiet, highlight=False, soft_wrap=True)
        self._bar = Progress(
            *columns, console=self._console, disable=quiet or not self._console.is_terminal, transient=True
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
