"""What becomes of each value that a file of items holds: an item with a key of its own, or a problem with its place."""

from collections.abc import Mapping

from pydantic import JsonValue

from evalscribe.dataset import Item
from evalscribe.errors import DataError
from evalscribe.item_line import parsed

MOST_TOLD = 20
"""Problems that are kept; all are counted."""


class Intake:
    """The state of one reading of a file."""

    def __init__(self, name: str, unit: str = "line") -> None:
        """`name`: of the file; `unit`: what its values are numbered by, `line` or `item`."""
        self.problems: list[str] = []
        self.bad = 0
        self.hidden = 0
        self._name = name
        self._unit = unit
        self._places: dict[str, int] = {}
        self._equal: dict[str, int] = {}

    def item(self, value: object, number: int, source: Mapping[str, JsonValue] | None = None) -> Item | None:
        """None, and a problem, for what is none. `source` is added to file and place."""
        try:
            read = parsed(value, {"file": self._name.rpartition("/")[2], self._unit: number, **(source or {})})
            item = read.item if isinstance(value, dict) and value.get("key") is not None else self._keyed(read.item)
            self._take(item.key, number)
        except DataError as error:
            self.refuse(number, str(error))
            return None
        self.hidden += read.hidden
        return item

    def refuse(self, number: int, what: str) -> None:
        self.bad += 1
        if len(self.problems) < MOST_TOLD:
            self.problems.append(f"{self.place(number)}: {what}")

    def place(self, number: int) -> str:
        return f"{self._name}:{number}" if self._unit == "line" else f"{self._name}: {self._unit} {number}"

    def _take(self, key: str, number: int) -> None:
        first = self._places.setdefault(key, number)
        if first != number:
            raise DataError(f"the key {key!r} is that of {self._unit} {first} too")

    def _keyed(self, item: Item) -> Item:
        """Of equal items the second is called `…-2`."""
        key, number = item.key, self._equal.get(item.key, 1)
        while key in self._places:
            number += 1
            key = f"{item.key}-{number}"
        self._equal[item.key] = number
        return item if key == item.key else item.model_copy(update={"key": key})
