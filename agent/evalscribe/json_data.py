"""Parse untrusted JSON strictly, clean it, read its fields, and format paths into it."""

import json
import math
from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from evalscribe.errors import DataError
from evalscribe.text import cut, one_line

MAX_INDEX_DIGITS = 9
"""Maximum number of digits of a list index."""


def get_member(value: JsonValue, name: str) -> JsonValue:
    """Return an object's member by name, or a list's item by index from 0.

    Raises `LookupError` if it does not exist.
    """
    if isinstance(value, dict):
        return value[name]
    if isinstance(value, list) and name.isdecimal() and len(name) <= MAX_INDEX_DIGITS:
        return value[int(name)]
    raise LookupError(name)


def to_text(value: JsonValue) -> str:
    """Return a string unchanged, and any other value as JSON with its members in their original order.

    Scorers and run displays format JSON differently; their modules say why.
    """
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


MAX_DEPTH = 100
"""Maximum nesting depth of JSON that is read. A deployment stores at most 64 levels."""


def clean_json(value: object) -> object:
    """Replace characters that cannot be stored or printed as UTF-8 (lone surrogates and NUL) by U+FFFD.

    Returns the same object if nothing changes. Raises `DataError` if the value is nested too deeply.
    """
    return value if is_clean("\n".join(collect_strings(value))) else _cleaned(value)


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(str(name)): _cleaned(item) for name, item in value.items()}
    return value


def collect_strings(value: object) -> list[str]:
    """Return every string of a JSON value, including member names. Raises `DataError` if it is nested too deeply."""
    strings: list[str] = []
    _collect(value, strings, MAX_DEPTH)
    return strings


def _collect(value: object, strings: list[str], depth: int) -> None:
    if not depth:
        raise DataError("JSON nested too deeply")
    if isinstance(value, str):
        strings.append(value)
    elif isinstance(value, dict):
        strings.extend(map(str, value))
        _collect_all(value.values(), strings, depth - 1)
    elif isinstance(value, list):
        _collect_all(value, strings, depth - 1)


def _collect_all(values: Iterable[object], strings: list[str], depth: int) -> None:
    for value in values:
        if isinstance(value, str) and depth:  # Most are strings; this saves a call for each.
            strings.append(value)
        else:
            _collect(value, strings, depth)


def is_clean(text: str) -> bool:
    """Return True if `clean_text` would not change the text."""
    return clean_text(text) == text


def clean_text(text: str) -> str:
    """Apply `clean_json` to one string."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


MAX_PREVIEW = 80
MAX_PATH = 200


def join_path(path: str, part: object) -> str:
    """Extend a path by a part: `path.name`, `path[3]` or `path["odd name"]`.

    If the path is empty, return the part alone.
    """
    if isinstance(part, int):
        return f"{path}[{part}]"
    name = str(part)
    if not name.replace("-", "_").replace("$", "_").isidentifier():
        return f"{path}[{preview(name)}]"
    return f"{path}.{name}" if path else name


def preview(value: object) -> str:
    """Format a value on one line of bounded length."""
    try:
        return _shorten(json.dumps(value, ensure_ascii=False), MAX_PREVIEW)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"


def shorten_path(path: str) -> str:
    """Shorten a path to a bounded length by cutting its end."""
    return _shorten(path, MAX_PATH)


def join_names(names: object) -> str:
    """Join names with commas: `a, b, c`."""
    return ", ".join(map(str, names)) if isinstance(names, list | tuple | dict) else str(names)


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


MAX_DIGITS = 300


class InvalidJson(DataError):
    """The text is not valid JSON."""


class StrictJson:
    """Decodes JSON values one after the other; refuses `NaN`, numbers outside the range of a float, and duplicate
    names.
    """

    def __init__(self) -> None:
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_constant=lambda name: self._refuse(f"{name} is not valid JSON"),
            parse_float=self._real,
            parse_int=self._integer,
        )
        self._wrong: str | None = None

    def decode(self, text: str) -> object:
        """Parse a text that holds exactly one value.

        Raises `InvalidJson` or another `DataError`, without quoting the input.
        """
        self._wrong = None
        try:
            value = self.decoder.decode(text)
        except RecursionError:
            raise DataError("JSON nested too deeply") from None
        except json.JSONDecodeError as error:
            raise InvalidJson(f"invalid JSON: {error.msg} at character {error.pos + 1}") from None
        return self.checked(value)

    def checked(self, value: object) -> object:
        """Return a value that `decoder` has just produced. Raises `DataError` if it is not allowed."""
        wrong, self._wrong = self._wrong, None
        if wrong is not None:
            raise DataError(wrong)
        return value

    def _refuse(self, problem: str) -> None:
        """Store a problem for `checked` to raise. Raising it within a value would prevent reading the next value."""
        self._wrong = self._wrong or problem

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in members if names.count(name) > 1)
            self._refuse(f"an object has the member `{cut(one_line(twice), 80)}` twice")
        return members

    def _real(self, digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            self._refuse("a number is too large for a float")
        return number

    def _integer(self, digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            self._refuse(f"a number has more than {MAX_DIGITS} digits")
            return 0
        return int(digits)


JsonObject = Mapping[str, object]


def parse_json(raw: bytes) -> object:
    """Parse JSON from bytes that may not be valid UTF-8. Raises `DataError` without quoting the input."""
    try:
        return json.loads(raw.decode("utf-8-sig", "replace"))
    except RecursionError:
        raise DataError("JSON nested too deeply") from None
    except ValueError as error:
        raise DataError(f"invalid JSON: {error}") from None


def require_object(value: object, subject: str) -> JsonObject:
    if not isinstance(value, dict):
        raise DataError(f"{subject} is {_describe(value)}, not an object")
    return value


def require_list(value: object, subject: str) -> list[object]:
    if not isinstance(value, list):
        raise DataError(f"{subject} is {_describe(value)}, not a list")
    return value


def require_field(value: JsonObject, key: str, subject: str) -> object:
    if key not in value:
        raise DataError(f"{subject} has no `{key}`")
    return value[key]


def text_field(value: JsonObject, key: str, subject: str) -> str:
    """Return a required, non-empty text field."""
    text = require_field(value, key, subject)
    if not isinstance(text, str) or not text:
        raise DataError(f"`{key}` of {subject} is {_describe(text)}, not a text")
    return text


def id_field(value: JsonObject, key: str, subject: str) -> str:
    """Return an opaque id: one printable line of at most 200 characters."""
    text = text_field(value, key, subject)
    if not text.isprintable() or len(text) > 200:
        raise DataError(f"`{key}` of {subject} cannot be an id")
    return text


def optional_text_field(fields: JsonObject, key: str) -> str | None:
    text = fields.get(key)
    return text if isinstance(text, str) and text else None


def count_field(value: JsonObject, key: str, subject: str) -> int:
    """Return a whole number of at least 0. Deployments send whole numbers as floats (`66.0`)."""
    number = require_field(value, key, subject)
    if isinstance(number, bool) or not isinstance(number, int | float) or number < 0 or number != number // 1:
        raise DataError(f"`{key}` of {subject} is {_describe(number)}, not a count")
    if number > 1e9:
        raise DataError(f"`{key}` of {subject} is too large")
    return int(number)


def _describe(value: object) -> str:
    """Describe a value of the wrong type briefly, for a message."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the text {value[:40]!r}" if value else "an empty text"
    return "a list" if isinstance(value, list) else "an object"
