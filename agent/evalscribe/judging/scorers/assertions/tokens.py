"""The words of an assertion."""

import json
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from pydantic import JsonValue

TokenKind = Literal["operator", "path", "literal", "name", "end"]
_WORD = re.compile(
    r"""
    \s*(?:
      (?P<operator> && | \|\| | == | != | <= | >= | [!<>(),] )
    | (?P<path> (?:input|output|expected)(?:\.[A-Za-z0-9_-]+)* ) (?![A-Za-z0-9_.-])
    | (?P<text> "(?:[^"\\]|\\.)*" )
    | (?P<number> -?\d+(?:\.\d+)?(?:[eE][+-]?\d+)? ) (?![A-Za-z0-9_.])
    | (?P<name> [A-Za-z_][A-Za-z0-9_.-]* )
    )
    """,
    re.VERBOSE | re.ASCII,
)
_CONSTANTS: dict[str, JsonValue] = {"true": True, "false": False, "null": None}


class Token(NamedTuple):
    kind: TokenKind
    text: str
    at: int
    """Where it begins, from 1."""
    value: JsonValue = None
    """Of a literal."""


def tokens(expression: str) -> Iterator[Token]:
    """Raises `ValueError` for what is none."""
    at = 0
    while expression[at:].strip():
        match = _WORD.match(expression, at)
        if match is None:
            rest = expression[at:].lstrip()
            raise ValueError(f"cannot be read from character {len(expression) - len(rest) + 1} on: {rest[:20]}")
        yield _token(match)
        at = match.end()
    yield Token("end", "the end", len(expression) + 1)


def _token(match: re.Match[str]) -> Token:
    group = match.lastgroup or ""
    text, at = match[group], match.start(group) + 1
    match group:
        case "operator":
            return Token("operator", text, at)
        case "path":
            return Token("path", text, at)
        case "name" if text not in _CONSTANTS:
            return Token("name", text, at)
        case "name":
            return Token("literal", text, at, _CONSTANTS[text])
    try:
        return Token("literal", text, at, json.loads(text))
    except ValueError as error:
        raise ValueError(f"has at character {at} what is no JSON: {text[:20]}") from error
