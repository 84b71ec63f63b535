"""Read line-based files in which each eval has several lines, one for each filter or metric.

A file of this kind has all lines of one filter, then all lines of the next filter. The evals usually come in the same
order each time. This module reads the file at several positions at once, so that a long file need not fit into memory.
"""

from array import array
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from itertools import zip_longest
from pathlib import Path

from evalscribe.sources.files import FileReader
from evalscribe.sources.streams import json_lines

MAX_COLUMNS = 20
"""Maximum number of filters or metrics in a file."""
MAX_HELD_CHARACTERS = 64 * 1024 * 1024
"""Maximum number of characters in lines that are kept in memory until the lines of the other filters are read."""
Line = Mapping[str, object]


class LineGroups:
    """Groups the lines of a file by eval."""

    def __init__(
        self,
        path: Path,
        *,
        open: Callable[[Path], AbstractContextManager[FileReader]],
        omit: Callable[..., None],
        is_line: Callable[[Line], bool],
        column: Callable[[Line], str],
        key: Callable[[Line], str],
    ) -> None:
        """Store the arguments.

        Args:
            path: The file.
            open: Function that opens the file for the first pass.
            omit: The method `EvalReader._omit`, which is called for lines that cannot be read.
            is_line: Returns True if an object is a line of the format.
            column: Returns the name of the filter or metric that a line is about.
            key: Returns the same text for all lines of one eval.
        """
        self._path = path
        self._open = open
        self._omit = omit
        self._is_line = is_line
        self._column = column
        self._key = key
        self._longest_lines: dict[str, int] = {}
        """Number of characters in the longest line of each filter or metric.

        One line of each filter or metric is in memory at the same time.
        """

    def groups(self) -> Iterator[list[Line]]:
        """Yield the lines of each eval, one for each filter or metric. Raises the same errors as `FileReader`."""
        orders = self._orders()
        longest = max(orders.values(), key=len, default=array("q"))
        together = sum(self._longest_lines.values())
        # All filters must list the evals in the same order. Only the last lines of a filter can be missing.
        if together <= MAX_HELD_CHARACTERS and all(order == longest[: len(order)] for order in orders.values()):
            with ExitStack() as stack:
                columns = [stack.enter_context(closing(self._lines(column))) for column in orders]
                for lines in zip_longest(*columns):
                    yield [line for line in lines if line is not None]
            return
        lines_by_key: dict[str, list[Line]] = {}
        size = 0
        for column in orders:
            for line in self._lines(column):
                key, characters = self._key(line), len(str(line))
                # Lines of evals that are in memory already can use twice the limit, so that these evals become
                # complete.
                if size + characters <= MAX_HELD_CHARACTERS * (2 if key in lines_by_key else 1):
                    size += characters
                    lines_by_key.setdefault(key, []).append(line)
                else:
                    self._omit("a line of a long file whose filters list evals in different orders", self._path.name)
        yield from lines_by_key.values()

    def _orders(self) -> dict[str, "array[int]"]:
        """Return the order of the evals in the lines of each filter or metric, as hashes of the evals' keys."""
        orders: dict[str, array[int]] = {}
        with self._open(self._path) as reading:
            for number, line, _, characters, _ in json_lines(reading):
                place = f"{self._path.name}: line {number}"
                if line is None or not self._is_line(line):
                    self._omit("a line that cannot be read", place, lost=True)
                    continue
                column = self._column(line)
                if column not in orders and len(orders) >= MAX_COLUMNS:
                    self._omit("a line of a filter beyond the maximum number of filters", place)
                else:
                    orders.setdefault(column, array("q")).append(hash(self._key(line)))
                    self._longest_lines[column] = max(characters, self._longest_lines.get(column, 0))
        return orders

    def _lines(self, column: str) -> Generator[Line, None, None]:
        with FileReader(self._path) as reading:
            for _, line, *_ in json_lines(reading):
                if line is not None and self._is_line(line) and self._column(line) == column:
                    yield line
