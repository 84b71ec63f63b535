"""A console of `rich` that colours and lays out text, and writes no control characters of that text."""

from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from evalscribe.cli.display.streams import escaped, own


def console(file: TextIO, **options: Any) -> Console:
    """`options` are those of `rich.console.Console`."""
    return _Console(file=own(file), **options)


class _Console(Console):
    """`rich` writes escape codes of its own, so the stream cannot tell them from those of a text; segments can."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escaped(segment.text), segment.style)
