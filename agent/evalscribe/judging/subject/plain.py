"""A JSON object as lines that can be read and quoted: texts of several lines stay several lines."""

from collections.abc import Iterator, Mapping
from typing import Any

from evalscribe.judging.subject.keys import as_json


def plain(value: Mapping[str, Any]) -> str:
    """`key: value` line by line; strings as they are, below their key where they have several lines."""
    return "\n".join(_entries(value))


def _entries(value: Mapping[str, Any]) -> Iterator[str]:
    for key, part in value.items():
        text = part if isinstance(part, str) else as_json(part)
        yield f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"
