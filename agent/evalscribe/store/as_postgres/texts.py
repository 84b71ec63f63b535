"""Parts of texts, counted as Postgres counts them."""

import re
from functools import lru_cache


def left(text: str | None, count: int | None) -> str | None:
    """All but the last where `count` is below 0."""
    return None if text is None or count is None else text[:count]


def right(text: str | None, count: int | None) -> str | None:
    """All but the first where `count` is below 0."""
    if text is None or count is None:
        return None
    return text[-count:] if count else ""


def substr(text: str | None, start: int | None, *counts: int | None) -> str | None:
    """`start` counts from 1, and may lie before the text."""
    if text is None or start is None or None in counts:
        return None
    if not counts:
        return text[max(0, start - 1) :]
    (count,) = counts
    if count is None or count < 0:
        raise ValueError("negative substring length not allowed")
    return text[max(0, start - 1) : max(0, start - 1 + count)]


def split_part(text: str | None, separator: str | None, place: int | None) -> str | None:
    """`place` counts from 1, or from the end below 0."""
    if text is None or separator is None or place is None:
        return None
    if not place:
        raise ValueError("field position must not be zero")
    parts = text.split(separator) if separator else [text]
    index = place - 1 if place > 0 else len(parts) + place
    return parts[index] if 0 <= index < len(parts) else ""


def reverse(text: str | None) -> str | None:
    return None if text is None else text[::-1]


def matches(text: str | None, pattern: str, any_case: int) -> bool | None:
    """`pattern` as Python spells it."""
    return None if text is None else bool(_compiled(pattern, any_case).search(text))


@lru_cache
def _compiled(pattern: str, any_case: int) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.DOTALL | (re.IGNORECASE if any_case else 0))
