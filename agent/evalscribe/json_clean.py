"""JSON that somebody else wrote as it may be kept: what cannot be stored or printed is out of it."""

from collections.abc import Iterable

from evalscribe.errors import DataError

DEEPEST = 100
"""Levels of nesting that are read; a deployment stores at most 64."""


def clean(value: object) -> object:
    """The value without what cannot be stored or printed as UTF-8 text: lone surrogates and NUL become U+FFFD.

    It is the same object where there is nothing of that. Raises `DataError` for what is nested too deeply.
    """
    return value if is_clean("\n".join(strings(value))) else _cleaned(value)


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(str(name)): _cleaned(item) for name, item in value.items()}
    return value


def strings(value: object) -> list[str]:
    """Every string of a JSON value, names included. Raises `DataError` for what is nested too deeply."""
    found: list[str] = []
    _collect(value, found, DEEPEST)
    return found


def _collect(value: object, found: list[str], left: int) -> None:
    if not left:
        raise DataError("JSON nested too deeply")
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, dict):
        found.extend(map(str, value))
        _collect_all(value.values(), found, left - 1)
    elif isinstance(value, list):
        _collect_all(value, found, left - 1)


def _collect_all(values: Iterable[object], found: list[str], left: int) -> None:
    for value in values:
        if isinstance(value, str) and left:  # Most are: a call for each would take as long as all the rest.
            found.append(value)
        else:
            _collect(value, found, left)


def is_clean(text: str) -> bool:
    """Whether `clean_text` leaves the text as it is."""
    return clean_text(text) == text


def clean_text(text: str) -> str:
    """`clean` of one text."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
