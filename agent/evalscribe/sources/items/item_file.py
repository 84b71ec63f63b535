"""What a file of items tells of its reading, whatever its format."""

from collections.abc import Sequence
from pathlib import Path

from evalscribe.sources.items.intake import Intake
from evalscribe.strict_json import StrictJson


class ItemFile:
    """What all formats are as `ports.ItemRows`, but for how they are read."""

    def __init__(self, path: Path, name: str, unit: str = "line") -> None:
        """`unit`: what its values are numbered by, `line` or `item`."""
        self._path = path
        self._name = name
        self._intake = Intake(name, unit)
        self._json = StrictJson()

    @property
    def problems(self) -> Sequence[str]:
        return self._intake.problems

    @property
    def bad(self) -> int:
        return self._intake.bad

    @property
    def hidden(self) -> int:
        return self._intake.hidden
