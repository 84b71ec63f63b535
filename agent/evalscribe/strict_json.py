"""JSON as every reader understands it: what some would read in another way, or not at all, is refused."""

import json
import math

from evalscribe.errors import DataError
from evalscribe.prose import cut, one_line

MOST_DIGITS = 300


class NotJson(DataError):
    """It is none at all."""


class StrictJson:
    """Decodes values, one after the other. Not `NaN`, numbers beyond every float, or two members of one name."""

    def __init__(self) -> None:
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_constant=lambda name: self._refuse(f"{name} is no JSON"),
            parse_float=self._real,
            parse_int=self._whole,
        )
        self._wrong: str | None = None

    def decode(self, text: str) -> object:
        """One value and nothing else. Raises `NotJson` or another `DataError`, without quoting the input."""
        self._wrong = None
        try:
            value = self.decoder.decode(text)
        except RecursionError:
            raise DataError("JSON nested too deeply") from None
        except json.JSONDecodeError as error:
            raise NotJson(f"no valid JSON: {error.msg} at character {error.pos + 1}") from None
        return self.checked(value)

    def checked(self, value: object) -> object:
        """A value that `decoder` has just given. Raises `DataError` where it may not stand."""
        wrong, self._wrong = self._wrong, None
        if wrong is not None:
            raise DataError(wrong)
        return value

    def _refuse(self, what: str) -> None:
        """Told at the end: a decoder that is stopped cannot go on after the value."""
        self._wrong = self._wrong or what

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in made if names.count(name) > 1)
            self._refuse(f"an object has the member `{cut(one_line(twice), 80)}` twice")
        return made

    def _real(self, digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            self._refuse("a number is beyond every float")
        return number

    def _whole(self, digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            self._refuse(f"a number has more than {MOST_DIGITS} digits")
            return 0
        return int(digits)
