"""JSON that somebody else wrote as it may be kept: what cannot be stored or printed is out of it."""

from evalscribe.errors import DataError

DEEPEST = 100
"""Levels of nesting that are read; a deployment stores at most 64."""


def clean(value: object, left: int = DEEPEST) -> object:
    """The value without what cannot be stored or printed as UTF-8 text: lone surrogates and NUL become U+FFFD.

    Raises `DataError` for what is nested more than `left` levels deep.
    """
    if not left:
        raise DataError("JSON nested too deeply")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean(item, left - 1) for item in value]
    if isinstance(value, dict):
        return {clean_text(str(name)): clean(item, left - 1) for name, item in value.items()}
    return value


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
