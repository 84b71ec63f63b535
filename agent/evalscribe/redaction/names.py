"""Whether a literal that is assigned to a name is a secret, rather than an id, a hash or words."""

import base64
import binascii
import math
import re
from collections import Counter
from functools import lru_cache

SHORT = 48
"""Characters of a name or text that is likely to come again."""

_STRONG_NAME = re.compile(r"secret|passw|passphrase|pwd|credential|token|authorization", re.IGNORECASE)
_QUALIFIED_KEY = re.compile(
    r"(?:api|access|secret|private|auth|deploy|admin|account|signing|encryption|master|service|licen[sc]e|session|jwt|hmac"
    r"|aes|ssh|webhook|app|application|client|consumer|read|write|bot|shared|root|storage[_.-]?account)[_.-]?key",
    re.IGNORECASE,
)
_ENV_KEY = re.compile(r"[A-Z][A-Z0-9_]*_KEY(?![A-Za-z0-9_])")
"""`WANDB_KEY`: a name in capitals holds a credential even if the value looks like a hash."""
_HARMLESS_KEY = re.compile(
    r"(?:public|publishable|primary|foreign|idempotency|cache|partition|sort|storage|index|query|object)[_.-]?key",
    re.IGNORECASE,
)
_PLAIN_KEY = re.compile(
    r"(?:^|[_.-])keys?|[a-z0-9]Keys?|KEYS?|(?:^|[^A-Za-z])(?:auth|pass)(?![a-z])|[a-z](?:Auth|Pass)(?![a-z])"
    r"|(?:AUTH|PASS)(?![A-Z])"
)
_AUTH = re.compile(r"(?:^|[^A-Za-z])auth(?![A-Za-z])", re.IGNORECASE)
_UUID_NAME = re.compile(
    r"(?:api|access|secret|private)[_.-]?key|secret|passw|pwd"
    r"|(?:heroku|snyk|railway|postmark|hubspot|docker|squarespace|sendbird|consul|nomad)[A-Za-z_-]{0,20}token",
    re.IGNORECASE,
)
"""Names whose value is a secret even if it is a UUID. Under other names, a UUID is usually an id."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HASH = re.compile(
    r"(?:sha\d{1,3}|md5)[-:=].+|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}|[0-9A-F]{40}|[0-9A-F]{64}"
)
_RECORD_ID = re.compile(r"[a-z][a-z0-9]{30,32}")
_SHORT_NAME = re.compile(r"pass|pwd|secret", re.IGNORECASE)
_SPACE = re.compile(r"\s")
TEMPLATE = re.compile(
    r"\$\{|\{\{|://|^\.{0,2}/|\[redacted:|\.(?:pem|key|crt|cer|env|json|[jt]sx?|py|txt|md|ya?ml|toml|html)$"
)
"""Never part of a key: a placeholder, a URL, a path, a file name, or a mark of redaction."""
_JOINT = re.compile(r"[^A-Za-z0-9]+")
_READABLE_PIECE = re.compile(r"(?:[A-Z]?[a-z]{2,20}+){0,6}+[0-9]{0,4}|[A-Z]{0,20}[0-9]{0,4}|[0-9]+|[a-z]")
_LONGEST = 8000


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
    if not _SHORTEST <= len(value) <= _LONGEST:
        return False
    shortest, strong = _secrets_of(name) if len(name) > SHORT else _secrets_of_short(name)
    if shortest is None:
        return False
    if _AUTH.search(name) and is_basic(value):
        return True
    if len(value) < shortest or (not strong and (_HASH.fullmatch(value) or _RECORD_ID.fullmatch(value))):
        return False
    if _UUID.fullmatch(value):
        return bool(_UUID_NAME.search(name))
    return not TEMPLATE.search(value) and looks_random(value)


def is_basic(value: str) -> bool:
    """Whether this is base64 of `user:password`."""
    try:
        decoded = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def _secrets_of(name: str) -> tuple[int | None, bool]:
    """How long a secret of this name is at least, None where it names none; and whether the name alone says so."""
    strong = bool(_STRONG_NAME.search(name) or _QUALIFIED_KEY.search(name))
    if not strong and (_HARMLESS_KEY.search(name) or not _PLAIN_KEY.search(name)):
        return None, False
    return (_SHORTEST if _SHORT_NAME.search(name) else 16), strong or bool(_ENV_KEY.search(name))


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
