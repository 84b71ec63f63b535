"""Secrets that follow a word: `Authorization: Bearer …`, `api_key = "…"`, `--token …`."""

import re

from evalscribe.redaction.names import is_basic, is_secret, kind_of, readable
from evalscribe.redaction.scanned import Scanned

ASSIGNED = ("key", "token", "secret", "pass", "pwd", "credential", "auth")
"""Endings of names that hold secrets, in lower case."""

_CREDENTIALS = re.compile(
    r"(bearer[ \t]{1,4}|basic[ \t]{1,4}|authorization[\"'\\]{0,8}[ \t]{0,4}[:=,][ \t]{0,4}[\"'`\\]{0,8}"
    r"(?!(?:bearer|basic)[ \t])[a-z][a-z0-9_-]{1,24}[ \t]{1,4})([A-Za-z0-9._~+/=:|-]{8,8000}+)",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"((?:key|token|secret|pass(?:w(?:or)?d|phrase|code)?|pwd|credential|auth(?:orization)?)s?"
    r"(?:_?[0-9]{1,3}|_?value|_base64|_b64)?"
    r"(?:[\"'`\]\\]{0,8}[ \t]{0,4}(?::[ \t]{0,4}(?:string|str)[ \t]{0,4})?(?:===?|=>|:=|[=:,]|%3d)[ \t]{0,4}"
    r"|%22%3a(?:%20)?(?:%22)?"
    r"|[\"'`\\]{0,8},?(?:\s|\\n){0,40}[\"'`\\]{0,8}value[\"'`\\]{0,8}[ \t]{0,4}[=:][ \t]{0,4}"
    r"|[ \t]{1,4}|>(?=[^<>\s]{8,8000}+<))"
    r"\\{0,7}([\"'`])?)"
    r"((?(2)[^\s\"'`\\<>]{10,8000}+|[A-Za-z0-9+/=_.~!@#%^*-]{10,8000}+))",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z0-9_.-]{0,40}\Z")
LONG_PART = 32
"""Characters that no name in an expression has."""
_CHAIN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[!.,*]*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*[!.,*]*")
_ENV_LEAD = re.compile(r"[A-Z0-9_]=$")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


_BEHIND_WORD = b"s_0123456789\"'`]\\ \t:=,>%vb"
_FOLLOWING = {word: _BEHIND_WORD + (b"wpc" if word == "pass" else b"") for word in (*ASSIGNED, "authorization")}
_SCHEMES = {"bearer": b" \t", "basic": b" \t", "authorization": b""}


def redact_credentials(scanned: Scanned) -> str:
    return scanned.sub(_CREDENTIALS, _credentials, _SCHEMES)


def redact_assigned(scanned: Scanned) -> str:
    present = {word: behind for word, behind in _FOLLOWING.items() if word in scanned.words}
    return scanned.sub(_ASSIGNED, _assigned, present)


def redact_header(value: str) -> str:
    """Redact the value of a header such as `Authorization`: a scheme and a secret."""
    scheme, space, secret = value.partition(" ")
    return f"{scheme} [redacted:authorization]" if space and " " not in secret and _is_opaque(secret) else value


def _credentials(match: re.Match[str]) -> str:
    lead, value = match[1], match[2]
    secret = is_basic(value) if lead.lower().startswith("basic") else _is_opaque(value)
    return f"{lead}[redacted:authorization]" if secret else match[0]


def _is_opaque(value: str) -> bool:
    """Whether a bearer token is more than readable words such as `test-token` or an expression."""
    expression = _CHAIN.fullmatch(value) and max(map(len, value.split("."))) < LONG_PART
    return len(value) >= 8 and any(c.isdigit() for c in value) and not readable(value) and not expression


def _assigned(match: re.Match[str]) -> str:
    lead, quote, value = match[1], match[2], match[3]
    before = _NAME.search(match.string, max(0, match.start() - 40), match.start())
    name = (before[0] if before else "") + lead
    first = before.start() if before else match.start()
    queried = lead.endswith("=") and match.string[max(0, first - 1) : first] in ("?", "&")  # there no value is code
    if not quote and ("," in lead or (not queried and _is_expression(lead, value))):
        return match[0]
    if lead[-1] in " \t" and not _SEPARATED.search(lead) and not name.startswith("--"):
        return match[0]
    return f"{lead}[redacted:{kind_of(name)}]" if is_secret(name, value) else match[0]


_SEPARATED = re.compile(r"[=:,>]")


def _is_expression(lead: str, value: str) -> bool:
    """Whether a value without quotes is code; `NAME=value` as in a `.env` file is a literal."""
    if _CHAIN.fullmatch(value):
        return True
    words = _WORD.findall(value)
    named = _IDENTIFIER.fullmatch(value) and words and sum(map(len, words)) / len(words) >= 3.4
    return bool(named) and not _ENV_LEAD.search(lead)
