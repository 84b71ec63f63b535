"""A `rich` console that escapes control characters in the text that it prints."""

from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from evalscribe.cli.display.streams import escaped, unescaped


def console(file: TextIO, **options: Any) -> Console:
    """`options` are those of `rich.console.Console`."""
    return _Console(file=unescaped(file), **options)


class _Console(Console):
    """Escapes text segments: the stream cannot tell `rich`'s own escape codes from those in a text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escaped(segment.text), segment.style)
