"""Parse untrusted JSON strictly, clean it, read its fields, and format paths to values in it."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from evalscribe.errors import DataError
from evalscribe.text import cut, one_line

MAX_INDEX_DIGITS = 9
"""Maximum number of digits of a list index in a path."""


def get_member(value: JsonValue, name: str) -> JsonValue:
    """Return the member of an object by its name, or the item of a list by its index, starting at 0.

    Raises `LookupError` if the member or item does not exist.
    """
    if isinstance(value, dict):
        return value[name]
    # `int` raises `ValueError` for a number of more than 4,300 digits.
    if isinstance(value, list) and name.isdecimal() and len(name) <= MAX_INDEX_DIGITS:
        return value[int(name)]
    raise LookupError(name)


def to_text(value: JsonValue) -> str:
    """Return a string unchanged, and any other value as JSON with its members in their original order.

    Scorers and the display of runs format JSON in other ways; the reasons are given in their modules.
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
    """Return every string in a JSON value, including the names of members.

    Raises `DataError` if the value is nested too deeply.
    """
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
        if isinstance(value, str) and depth:  # Most values are strings. Handling them here saves a call for each.
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
        # UTF-16 joins two surrogates that stand for one character. Only lone surrogates become U+FFFD.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


MAX_PREVIEW = 80
MAX_PATH = 200


def join_path(path: str, part: object) -> str:
    """Append a member name or a list index to a path: `path.name`, `path[3]` or `path["odd name"]`.

    If the path is empty, return the name or index alone.
    """
    if isinstance(part, int):
        return f"{path}[{part}]"
    name = str(part)
    if not name.replace("-", "_").replace("$", "_").isidentifier():
        return f"{path}[{preview(name)}]"
    return f"{path}.{name}" if path else name


def preview(value: object) -> str:
    """Format a value on one line, and cut it if it is too long."""
    try:
        return _shorten(json.dumps(value, ensure_ascii=False), MAX_PREVIEW)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"


def shorten_path(path: str) -> str:
    """Cut the end of a path that is too long."""
    return _shorten(path, MAX_PATH)


def join_names(names: object) -> str:
    """Join names with commas: `a, b, c`."""
    return ", ".join(map(str, names)) if isinstance(names, list | tuple | dict) else str(names)


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


# The largest float is 1.8e308, so an integer of at most 300 digits can be converted to a float. `int` itself refuses
# more than 4,300 digits.
MAX_DIGITS = 300


class InvalidJson(DataError):
    """Raised if a text is not valid JSON."""


class StrictJson:
    """Decodes JSON values one after the other.

    Refuses `NaN`, numbers outside the range of a float, and objects in which a name occurs twice.
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
        """Parse a text that consists of exactly one JSON value.

        Raises `DataError`, or its subclass `InvalidJson`, with a message that does not quote the input.
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
        """Return a value that `decoder` has just decoded.

        Raises `DataError` if the value contains something that is not allowed.
        """
        wrong, self._wrong = self._wrong, None
        if wrong is not None:
            raise DataError(wrong)
        return value

    def _refuse(self, problem: str) -> None:
        """Store a problem, which `checked` raises later.

        If an error were raised while a value is decoded, the next value could not be read.
        """
        self._wrong = self._wrong or problem

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        # Readers take different values if a name occurs twice: some the first, some the last (RFC 8259, section 4).
        members = dict(pairs)
        if len(members) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            twice = next(name for name in members if counts[name] > 1)
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
    """Parse JSON from bytes that might not be valid UTF-8.

    Raises `DataError` with a message that does not quote the input.
    """
    try:
        return json.loads(raw.decode("utf-8-sig", "replace"))
    except RecursionError:
        raise DataError("JSON nested too deeply") from None
    # Besides invalid JSON, this is an integer of more than 4,300 digits, which `int` refuses.
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
    """Return the text of a required field. Raises `DataError` if the field is missing, empty or not a text."""
    text = require_field(value, key, subject)
    if not isinstance(text, str) or not text:
        raise DataError(f"`{key}` of {subject} is {_describe(text)}, not a text")
    return text


def id_field(value: JsonObject, key: str, subject: str) -> str:
    """Return the id in a required field. An id must be one printable line of at most 200 characters."""
    text = text_field(value, key, subject)
    if not text.isprintable() or len(text) > 200:
        raise DataError(f"`{key}` of {subject} is not an id: it must be one printable line of at most 200 characters")
    return text


def optional_text_field(fields: JsonObject, key: str) -> str | None:
    text = fields.get(key)
    return text if isinstance(text, str) and text else None


def count_field(value: JsonObject, key: str, subject: str) -> int:
    """Return the number in a required field. The number must be whole and at least 0.

    Deployments send whole numbers as floats (`66.0`), so floats are accepted.
    """
    number = require_field(value, key, subject)
    # A bool is an int in Python. `inf // 1` and `nan // 1` are NaN, which is equal to nothing, so both are refused.
    if isinstance(number, bool) or not isinstance(number, int | float) or number < 0 or number != number // 1:
        raise DataError(f"`{key}` of {subject} is {_describe(number)}, not a whole number of at least 0")
    if number > 1e9:
        raise DataError(f"`{key}` of {subject} is too large")
    return int(number)


def _describe(value: object) -> str:
    """Describe a value of the wrong type briefly, for an error message."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the text {value[:40]!r}" if value else "an empty text"
    return "a list" if isinstance(value, list) else "an object"
