"""Whether a literal that is assigned to a name is a secret, rather than an id, a hash or words."""

import math
import re
from collections import Counter
from functools import lru_cache

SHORT = 48
"""Characters of a name or text that is likely to come again."""

_STRONG_NAME = re.compile(r"secret|passw|passphrase|pwd|credential|token|authorization", re.IGNORECASE)
_QUALIFIED_KEY = re.compile(
    r"(?:api|access|secret|private|auth|deploy|admin|account|signing|encryption|master|service|licen[sc]e|session|jwt|hmac"
    r"|aes|ssh|webhook)[_.-]?key",
    re.IGNORECASE,
)
_HARMLESS_KEY = re.compile(
    r"(?:public|publishable|primary|foreign|idempotency|cache|partition|sort|storage|index|query|object)[_.-]?key",
    re.IGNORECASE,
)
_PLAIN_KEY = re.compile(r"(?:^|[_.-])keys?|[a-z0-9]Keys?|KEYS?")

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HASH = re.compile(
    r"(?:sha\d{1,3}|md5)[-:=].+|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}|[0-9A-F]{40}|[0-9A-F]{64}"
)
_RECORD_ID = re.compile(r"[a-z][a-z0-9]{30,32}")
_SHORT_NAME = re.compile(r"pass|pwd|secret", re.IGNORECASE)
_SPACE = re.compile(r"\s")
_JOINT = re.compile(r"[^A-Za-z0-9]+")
_READABLE_PIECE = re.compile(r"(?:[A-Z]?[a-z]{2,20}+){0,6}+[0-9]{0,4}|[A-Z]{0,20}[0-9]{0,4}|[0-9]+")


def kind_of(name: str) -> str:
    lowered = name.lower()
    return next((kind for kind in ("password", "secret", "token") if kind[:5] in lowered), "key")


@lru_cache(8192)
def may_name(name: str) -> bool:
    """Whether anything assigned to `name` can be a secret."""
    strong = _STRONG_NAME.search(name) or _QUALIFIED_KEY.search(name)
    return bool(strong or (not _HARMLESS_KEY.search(name) and _PLAIN_KEY.search(name)))


def is_secret(name: str, value: str) -> bool:
    """Whether the literal `value`, assigned to `name`, is a secret rather than an id, a hash or words."""
    if not _SHORTEST <= len(value) <= 1000:
        return False
    shortest, strong = _secrets_of(name) if len(name) > SHORT else _secrets_of_short(name)
    if shortest is None or len(value) < shortest:
        return False
    if not strong and (_HASH.fullmatch(value) or _RECORD_ID.fullmatch(value)):
        return False
    return not _UUID.fullmatch(value) and looks_random(value)


def _secrets_of(name: str) -> tuple[int | None, bool]:
    """How long a secret of this name is at least, None where it names none; and whether the name alone says so."""
    strong = bool(_STRONG_NAME.search(name) or _QUALIFIED_KEY.search(name))
    if not strong and (_HARMLESS_KEY.search(name) or not _PLAIN_KEY.search(name)):
        return None, False
    return (_SHORTEST if _SHORT_NAME.search(name) else 16), strong


_SHORTEST = 10
"""Characters that a secret has at least."""
_secrets_of_short = lru_cache(8192)(_secrets_of)


def looks_random(value: str) -> bool:
    letters, digits = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    return letters and digits and not _SPACE.search(value) and not readable(value) and _bits(value) >= 2.8


def readable(value: str) -> bool:
    """Whether this is words with at most a number behind each, as people make names up: `test-token-2`."""
    return all(_READABLE_PIECE.fullmatch(piece) for piece in _JOINT.split(value))


def _bits(value: str) -> float:
    """Shannon entropy per character."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
