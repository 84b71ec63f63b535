"""Takes secrets out of text as it is read, so that nothing behind a source ever holds one.

Two kinds of evidence for a secret: a shape that only keys have (a provider's prefix, PEM, JWT, a password in a URL),
and a random-looking literal that is assigned to a name such as `token`. Ids, hashes and code stay as they are.
Every pattern is linear: a run of token characters is tried from its first character only, and what precedes is bounded.
"""

import base64
import binascii
import math
import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
"""Where a token may begin: not inside a longer one, but after an escaped line end or a percent escape."""

_GITLAB = ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glft-", "glagent-")


class _Shape(NamedTuple):
    """A pattern that is only tried on text that contains one of `hints`: looking for those is nearly free."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _prefixed(kind: str, prefix: str, rest: str) -> _Shape:
    return _Shape(kind, (prefix,), re.compile(_START + re.escape(prefix) + rest))


_SHAPES = (
    _prefixed("anthropic-key", "sk-ant-", r"[A-Za-z0-9_-]{16,}+"),
    _prefixed("openrouter-key", "sk-or-", r"[A-Za-z0-9_-]{16,}+"),
    _prefixed("openai-key", "sk-", r"(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}+"),
    _prefixed("api-key", "sk-", r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,}+"),
    _prefixed("langsmith-key", "lsv2_", r"(?:pt|sk)_[A-Za-z0-9_]{20,}+"),
    _Shape(
        "github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), re.compile(_START + r"gh[pousr]_[A-Za-z0-9]{30,}+")
    ),
    _prefixed("github-token", "github_pat_", r"[A-Za-z0-9_]{22,}+"),
    _Shape("gitlab-token", _GITLAB, re.compile(_START + f"(?:{'|'.join(_GITLAB)})[A-Za-z0-9_.-]{{20,}}+")),
    _Shape("aws-key", ("AKIA", "ASIA"), re.compile(_START + r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])")),
    _prefixed("google-key", "AIza", r"[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _prefixed("google-token", "ya29.", r"[A-Za-z0-9_-]{20,}+"),
    _prefixed("google-secret", "GOCSPX-", r"[A-Za-z0-9_-]{20,}+"),
    _Shape("slack-token", ("xox", "xapp-"), re.compile(_START + r"(?:xox[abceoprs]|xapp)-[A-Za-z0-9-]{10,}+")),
    _prefixed("slack-webhook", "hooks.slack.com/services/", r"[A-Za-z0-9/]{20,}+"),
    _prefixed("huggingface-token", "hf_", r"(?=[A-Za-z]*[0-9A-Z])[A-Za-z0-9]{30,}+"),
    _prefixed("npm-token", "npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _prefixed("pypi-token", "pypi-", r"[A-Za-z0-9_-]{50,}+"),
    _prefixed("sendgrid-key", "SG.", r"[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),
    _Shape("stripe-key", ("_live_", "_test_"), re.compile(_START + r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+")),
    _prefixed("webhook-secret", "whsec_", r"[A-Za-z0-9+/=]{24,}+"),
    _prefixed("groq-key", "gsk_", r"[A-Za-z0-9]{40,}+"),
    _prefixed("xai-key", "xai-", r"[A-Za-z0-9]{40,}+"),
    _prefixed("perplexity-key", "pplx-", r"[A-Za-z0-9]{40,}+"),
    _prefixed("replicate-token", "r8_", r"[A-Za-z0-9]{30,}+"),
    _prefixed("databricks-token", "dapi", r"[a-f0-9]{32}(?![A-Za-z0-9])"),
    _Shape("digitalocean-token", ("_v1_",), re.compile(_START + r"do[opr]_v1_[a-f0-9]{64}")),
    _prefixed("supabase-key", "sb", r"(?:p_[a-f0-9]{40}|_secret_[A-Za-z0-9_-]{20,}+)"),
    _prefixed("shopify-token", "shp", r"(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    _prefixed("resend-key", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}+"),
    _prefixed("twilio-key", "SK", r"[0-9a-f]{32}(?![A-Za-z0-9])"),
    _prefixed("linear-key", "lin_api_", r"[A-Za-z0-9]{30,}+"),
    _prefixed("notion-token", "ntn_", r"[A-Za-z0-9]{40,}+"),
    _prefixed("mailgun-key", "key-", r"[a-f0-9]{32}(?![A-Za-z0-9])"),
    _Shape("telegram-token", (":AA",), re.compile(_START + r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])")),
    _Shape(
        "convex-key",
        ("prod:", "dev:", "preview:", "project:"),
        re.compile(
            _START + r"(?:prod|dev|preview|project):[A-Za-z0-9:_-]{2,120}+\|"
            r"(?=[A-Za-z+/_-]{0,600}[0-9A-Z=])(?:(?!(?:prod|dev|preview|project):)[A-Za-z0-9+/=_-]){8,}+"
        ),
    ),
    _Shape("convex-key", ("|01",), re.compile(_START + r"[a-z][a-z0-9-]{2,80}+\|01[0-9a-f]{40,}+")),
    _Shape(
        "jwt",
        ("eyJ",),
        re.compile(_START + r"eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+"),
    ),
)

_BY_HINT = tuple((hint, shape.pattern, f"[redacted:{shape.kind}]") for shape in _SHAPES for hint in shape.hints)

_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----)){0,20000}+-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:\s{1,80}+[A-Za-z0-9+/=]{16,}+)*)"
)
_URL_LOGIN = re.compile(r"://([^\s/:@\"'`<>|]{0,200}+)(:[^\s/@\"'`<>]{1,400}+)?@")
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
_ASSIGNED_WORDS = ("key", "token", "secret", "pass", "pwd", "credential", "authorization")

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
LONG_PART = 32
"""Characters that no name in an expression has."""
_CHAIN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[!.,*]*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*[!.,*]*")
_ENV_LEAD = re.compile(r"[A-Z0-9_]=$")
_SHORT_NAME = re.compile(r"pass|pwd|secret", re.IGNORECASE)
_SPACE = re.compile(r"\s")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_JOINT = re.compile(r"[^A-Za-z0-9]+")
_READABLE_PIECE = re.compile(r"(?:[A-Z]?[a-z]{2,20}+){0,6}+[0-9]{0,4}|[A-Z]{0,20}[0-9]{0,4}|[0-9]+")


def redact(text: str) -> str:
    """The text with every secret replaced by `[redacted:<kind>]`. Keeps the number of lines; linear in the text."""
    if "-----BEGIN" in text:
        text = _PEM.sub(_pem, text)
    for hint, pattern, mark in _BY_HINT:
        if hint in text:
            text = pattern.sub(mark, text)
    if "://" in text:
        text = _URL_LOGIN.sub(_url_login, text)
    return _redact_named(text)


_SHORT = 48
"""Characters of a text that is likely to come again, as names and roles do: half the time of reading a large file."""
_redact_short = lru_cache(8192)(redact)


def redact_json(value: object) -> object:
    """A JSON value with every string redacted, names included; a member's name counts as the name of its text."""
    if isinstance(value, str):
        return _redact_short(value) if len(value) <= _SHORT else redact(value)
    if isinstance(value, list):
        return [redact_json(item) for item in value]
    if isinstance(value, dict):
        return {redact_json(str(name)): _redact_member(str(name), item) for name, item in value.items()}
    return value


def redact_member(name: str, text: str) -> str:
    """`redact` of a member's text: the member's name counts as the name of its text."""
    if _may_name(name) and _is_secret(name, text):
        return f"[redacted:{_kind(name)}]"
    return _redact_short(text) if len(text) <= _SHORT else redact(text)


def _redact_member(name: str, value: object) -> object:
    return redact_member(name, value) if isinstance(value, str) else redact_json(value)


def _redact_named(text: str) -> str:
    lowered = text.lower()
    if "bearer" in lowered or "basic" in lowered or "authorization" in lowered:
        text = _CREDENTIALS.sub(_credentials, text)
    if any(word in lowered for word in _ASSIGNED_WORDS):
        text = _ASSIGNED.sub(_assigned, text)
    return text


def _pem(match: re.Match[str]) -> str:
    return "[redacted:private-key]" + "\n" * match[0].count("\n")


def _url_login(match: re.Match[str]) -> str:
    user, password = match[1], match[2]
    if password is None:
        return "://[redacted:basic-auth]@" if len(user) >= 20 and _looks_random(user) else match[0]
    if password.startswith((":${", ":{", ":$", ":[redacted")) or user.startswith("[redacted"):
        return match[0]
    return f"://{user}:[redacted:basic-auth]@"


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
    return any(c.isdigit() for c in value) and not _readable(value) and not expression


def _assigned(match: re.Match[str]) -> str:
    lead, quote, value = match[1], match[2], match[3]
    before = _NAME.search(match.string, max(0, match.start() - 40), match.start())
    name = (before[0] if before else "") + lead
    if not quote and ("," in lead or _is_expression(lead, value)):
        return match[0]
    return f"{lead}[redacted:{_kind(name)}]" if _is_secret(name, value) else match[0]


def _is_expression(lead: str, value: str) -> bool:
    """Whether a value without quotes is code; `NAME=value` as in a `.env` file is a literal."""
    if _CHAIN.fullmatch(value):
        return True
    words = _WORD.findall(value)
    named = _IDENTIFIER.fullmatch(value) and words and sum(map(len, words)) / len(words) >= 3.4
    return bool(named) and not _ENV_LEAD.search(lead)


def _kind(name: str) -> str:
    lowered = name.lower()
    return next((kind for kind in ("password", "secret", "token") if kind[:5] in lowered), "key")


@lru_cache(8192)
def _may_name(name: str) -> bool:
    """Whether anything assigned to `name` can be a secret."""
    strong = _STRONG_NAME.search(name) or _QUALIFIED_KEY.search(name)
    return bool(strong or (not _HARMLESS_KEY.search(name) and _PLAIN_KEY.search(name)))


def _is_secret(name: str, value: str) -> bool:
    """Whether the literal `value`, assigned to `name`, is a secret rather than an id, a hash or words."""
    if not _SHORTEST <= len(value) <= 1000:
        return False
    shortest, strong = _secrets_of(name) if len(name) > _SHORT else _secrets_of_short(name)
    if shortest is None or len(value) < shortest:
        return False
    if not strong and (_HASH.fullmatch(value) or _RECORD_ID.fullmatch(value)):
        return False
    return not _UUID.fullmatch(value) and _looks_random(value)


def _secrets_of(name: str) -> tuple[int | None, bool]:
    """How long a secret of this name is at least, None where it names none; and whether the name alone says so."""
    strong = bool(_STRONG_NAME.search(name) or _QUALIFIED_KEY.search(name))
    if not strong and (_HARMLESS_KEY.search(name) or not _PLAIN_KEY.search(name)):
        return None, False
    return (_SHORTEST if _SHORT_NAME.search(name) else 16), strong


_SHORTEST = 10
"""Characters that a secret has at least."""
_secrets_of_short = lru_cache(8192)(_secrets_of)


def _looks_random(value: str) -> bool:
    letters, digits = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    return letters and digits and not _SPACE.search(value) and not _readable(value) and _bits(value) >= 2.8


def _readable(value: str) -> bool:
    """Whether this is words with at most a number behind each, as people make names up: `test-token-2`."""
    return all(_READABLE_PIECE.fullmatch(piece) for piece in _JOINT.split(value))


def _bits(value: str) -> float:
    """Shannon entropy per character."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
