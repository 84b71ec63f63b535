"""Secrets that follow a word: `Authorization: Bearer …`, `api_key = "…"`."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from heapq import merge

from evalscribe.redaction.names import is_secret, kind_of, readable

_CREDENTIALS = re.compile(
    r"(bearer[ \t]{1,4}|basic[ \t]{1,4}|authorization[\"'\\]{0,3}[ \t]{0,4}[:=][ \t]{0,4}[\"'`\\]{0,2}"
    r"(?:convex|token|apikey|api-key)[ \t]{1,4})([A-Za-z0-9._~+/=:|-]{8,4000}+)",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"((?:key|token|secret|password|passwd|passphrase|pwd|credential|authorization)s?(?:_?[0-9]{1,3}|_?value|_base64)?"
    r"[\"'`\]\\]{0,3}[ \t]{0,4}(?::[ \t]{0,4}(?:string|str)[ \t]{0,4})?(?:===?|=>|:=|[=:,])[ \t]{0,4}\\?([\"'`]?))"
    r"([A-Za-z0-9+/=_.~!@#%^*-]{10,1000}+)",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z0-9_.-]{0,40}$")
LONG_PART = 32
"""Characters that no name in an expression has."""
_CHAIN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[!.,*]*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*[!.,*]*")
_ENV_LEAD = re.compile(r"[A-Z0-9_]=$")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def redact_credentials(text: str, words: Sequence[str]) -> str:
    """`words`: those of `hints.CREDENTIALS` that the text may hold."""
    return _sub(_CREDENTIALS, _credentials, text, words)


def redact_assigned(text: str, words: Sequence[str]) -> str:
    """`words`: those of `hints.ASSIGNED` that the text may hold."""
    return _sub(_ASSIGNED, _assigned, text, words)


def _sub(pattern: re.Pattern[str], replaced: Callable[[re.Match[str]], str], text: str, words: Sequence[str]) -> str:
    """`pattern.sub` of a pattern that begins with one of the words: tried only where they stand, a hundredth of the
    time."""
    lowered = text.lower()
    words = [word for word in words if word in lowered]
    if len(lowered) != len(text):
        return pattern.sub(replaced, text) if words else text
    pieces, end = [], 0
    for start in merge(*(_places(word, lowered) for word in words)):
        if start >= end and (found := pattern.match(text, start)):
            pieces += [text[end:start], replaced(found)]
            end = found.end()
    return "".join([*pieces, text[end:]]) if pieces else text


def _places(word: str, text: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _credentials(match: re.Match[str]) -> str:
    lead, value = match[1], match[2]
    secret = _is_basic(value) if lead.lower().startswith("basic") else _is_opaque(value)
    return f"{lead}[redacted:authorization]" if secret else match[0]


def _is_basic(value: str) -> bool:
    """Whether this is base64 of `user:password`."""
    try:
        return b":" in base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False


def _is_opaque(value: str) -> bool:
    """Whether a bearer token is more than readable words such as `test-token` or an expression."""
    expression = _CHAIN.fullmatch(value) and max(map(len, value.split("."))) < LONG_PART
    return any(c.isdigit() for c in value) and not readable(value) and not expression


def _assigned(match: re.Match[str]) -> str:
    lead, quote, value = match[1], match[2], match[3]
    before = _NAME.search(match.string, max(0, match.start() - 40), match.start())
    name = (before[0] if before else "") + lead
    if not quote and ("," in lead or _is_expression(lead, value)):
        return match[0]
    return f"{lead}[redacted:{kind_of(name)}]" if is_secret(name, value) else match[0]


def _is_expression(lead: str, value: str) -> bool:
    """Whether a value without quotes is code; `NAME=value` as in a `.env` file is a literal."""
    if _CHAIN.fullmatch(value):
        return True
    words = _WORD.findall(value)
    named = _IDENTIFIER.fullmatch(value) and words and sum(map(len, words)) / len(words) >= 3.4
    return bool(named) and not _ENV_LEAD.search(lead)
