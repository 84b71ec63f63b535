"""Secrets that are recognised by their place: URLs, cookies, `.netrc`, `.pgpass`, private key blocks."""

import re
from collections.abc import Callable

from evalscribe.redaction.names import TEMPLATE, looks_random
from evalscribe.redaction.scanned import Scanned

_GAP = r"(?:\s|\\[nrt])"
"""White space, possibly escaped in a JSON string."""
_BLOCK = re.compile(
    r"-{4,5} ?(BEGIN) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    r"(?:((?:[^-]|-(?!---)){0,20000}+)-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    rf"|(?:{_GAP}{{1,80}}+(?:[A-Z][A-Za-z-]{{2,20}}: [^\n\\\"']{{0,100}}+"
    r"|[A-Za-z0-9+/=]{16,}+|[A-Za-z0-9+/]{1,15}=))*)"
)
_CHUNK = re.compile(r"[A-Za-z0-9+/=]{12,}+")
_LOGIN = r"([^\s/:@\"'`<>|\\]{0,200}+)(:[^\s/\"'`<>\\]{1,400})?@"
_URL_LOGIN = re.compile("://" + _LOGIN)
_ESCAPED_URL_LOGIN = re.compile(r"(:\\{1,7}/\\{1,7}/)" + _LOGIN)
_ENCODED_URL_LOGIN = re.compile(r"(?i:(%3A%2F%2F[^\s/%\"'&]{0,200}+%3A)([^\s/\"'&]{1,400}?)(%40))")
_AZURE = re.compile(r"(?:(?<![\w.~-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))[\w.~-]{3}[0-9]Q~[\w.~-]{31,}+")
_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
_CONVEX = re.compile(
    r"(?=(?:prod|dev|preview|project)(?::|%3[Aa]))"
    + _START
    + r"[a-z]{3,7}(?::|%3[Aa])[A-Za-z0-9:_-]{2,120}+(?:\||%7[Cc])"
    r"(?=[A-Za-z+/_-]{0,600}[0-9A-Z=])(?:(?!(?:prod|dev|preview|project):)[A-Za-z0-9+/=_-]){8,}+"
)
_CONVEX_WORDS = {"prod": b":%", "dev": b":%", "preview": b":%", "project": b":%"}
_BAR = re.compile(r"\|[A-Za-z0-9+/=_-]{8}")
_CONVEX_HOSTED = re.compile(
    r"(?:(?<![A-Za-z0-9_\\-])|(?<=\\)(?![bfnrtu])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))[a-z][a-z0-9-]{2,80}+\|01[0-9a-f]{40,}+"
)
_SIGNATURE = re.compile(
    r"((?:(?<=[?&;,\s\"'-])|(?<=u0026)|(?<=%26))sig(?:nature)?(?:=|%3d))([A-Za-z0-9%+/=_.~-]{20,2000}+)", re.IGNORECASE
)
_COOKIE = re.compile(
    r"cookies?[\"'`\]\\]{0,8}[ \t]{0,4}(?:=>|[:=,])[ \t]{0,4}([\[{(]?)[ \t]{0,4}\\{0,7}([\"'`]?)", re.IGNORECASE
)
_COOKIE_PAIR = re.compile(
    r"([A-Za-z0-9_!#$%&*+.^|~-]{1,100}+(?:=\"?|\\{0,7}[\"'][ ]?[:=,][ ]?\\{0,7}[\"']))([^\s;,\"'\\`}\]]{8,4000}+)"
)
_COOKIE_LINE = re.compile(
    r"(\t(?:TRUE|FALSE)\t[^\t\n]*\t(?:TRUE|FALSE)\t[0-9]+\t[^\t\n]{1,200}\t)([^\s\"'\\]{6,4000}+)"
)
_COOKIE_ENDS = {"[": "]", "{": "}", "(": ")"}
_LONGEST_COOKIES = 8000
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIELD = r"[^\s\"'\\=]{1,200}+"
_NETRC = re.compile(
    rf"((?:machine{_GAP}{{1,20}}+{_FIELD}|default){_GAP}{{1,20}}+(?:(?:login|account){_GAP}{{1,20}}+{_FIELD}{_GAP}{{1,20}}+){{1,2}}"
    rf"password{_GAP}{{1,20}}+)([^\s\"'\\=]{{1,400}}+)"
)
_PGPASS = re.compile(
    r"((?:(?<=[^\s:\"'`]:)|(?<=[^\s:\"'`]:6))543[0-9]?:[^\s:\"'`\\]{1,100}+:[^\s:\"'`\\]{1,100}+:)"
    r"((?:[^\s\"'`\\]|\\(?![nr\"'])){4,400}+)"
)
_USER_OPTION = re.compile(
    r"((?:\s-u|--(?:proxy-)?user)[ =]?\\{0,3}[\"']?[^\s:\"'\\$-][^\s:\"'\\$]{0,100}+:)([^\s\"'\\$*{<]{1,400}+)"
)
_COLOR = r"(?:\x1b|\\{1,8}(?:u001[bB]|x1[bB]))\[[0-9;?]{0,40}[A-Za-z]"
COLOR = re.compile(_COLOR)
COLOR_INSIDE = re.compile(rf"(?<=[A-Za-z0-9+/=_.|:~-]){_COLOR}(?:{_COLOR}){{0,9}}+(?=[A-Za-z0-9+/=_.|:~-])")
"""A color code between two characters that can be part of a key."""


def redact_block(scanned: Scanned) -> str:
    text = scanned.text
    return _BLOCK.sub(_block, text) if "PRIVATE KEY" in text and "BEGIN " in text else text


def _block(match: re.Match[str]) -> str:
    """Replace a key by one mark, or by one mark per line if it is concatenated from strings, which stay strings."""
    whole, body = match[0], match[2] or ""
    if any(quote in whole for quote in "\"'`"):
        start = match.start(2) - match.start() if body else 0
        return whole[:start] + _CHUNK.sub("[redacted:private-key]", body) + whole[start + len(body) :]
    return "[redacted:private-key]" + "\n" * whole.count("\n")


def redact_url_login(scanned: Scanned) -> str:
    """`https://user:password@host`, also with escaped slashes and in a query."""
    text = scanned.text
    if "@" in text:
        text = _URL_LOGIN.sub(lambda match: _url_login("://", match[1], match[2]) or match[0], text)
    if ":\\/" in scanned.words:
        text = _ESCAPED_URL_LOGIN.sub(lambda match: _url_login(match[1], match[2], match[3]) or match[0], text)
    return _ENCODED_URL_LOGIN.sub(_kept_lead("basic-auth", _any), text) if "%40" in scanned.words else text


def _url_login(lead: str, user: str, password: str | None) -> str | None:
    if password is None:
        return f"{lead}[redacted:basic-auth]@" if len(user) >= 20 and looks_random(user) else None
    if password.startswith((":${", ":{", ":$", ":[redacted", ":%5Bredacted")) or user.startswith("[redacted"):
        return None
    return f"{lead}{user}:[redacted:basic-auth]@"


def redact_azure(scanned: Scanned) -> str:
    return _AZURE.sub("[redacted:azure-secret]", scanned.text)


def redact_convex(scanned: Scanned) -> str:
    text = scanned.text
    if "%7c" in scanned.words or _BAR.search(text):
        text = scanned.sub(_CONVEX, lambda _: "[redacted:convex-key]", _CONVEX_WORDS)
        text = _CONVEX_HOSTED.sub("[redacted:convex-key]", text) if "|01" in text else text
    return text


def redact_signatures(scanned: Scanned) -> str:
    """Redact signatures of links that grant access: Azure's shared access, signed links of S3 and others."""
    return scanned.sub(_SIGNATURE, _kept_lead("signature", looks_random), {"sig": b"=n%"})


def redact_cookies(scanned: Scanned) -> str:
    """Redact `Cookie` and `Set-Cookie` in headers and JSON, and lines of a cookie file."""
    pieces, end = [], 0
    for head in scanned.matches(_COOKIE, {"cookie": b""}):
        if head.end() >= end:
            stop = _end_of_cookies(scanned.text, head)
            pieces += [scanned.text[end : head.end()], redact_cookie(scanned.text[head.end() : stop])]
            end = stop
    text = "".join([*pieces, scanned.text[end:]]) if pieces else scanned.text
    return _COOKIE_LINE.sub(_kept_lead("cookie", _any), text) if "\tTRUE\t" in text or "\tFALSE\t" in text else text


def _end_of_cookies(text: str, head: re.Match[str]) -> int:
    limit = min(len(text), head.end() + _LONGEST_COOKIES)
    closing = _COOKIE_ENDS.get(head[1]) or head[2] or "\n"
    ends = [text.find(one, head.end(), limit) for one in (closing, "\n") if closing in "\"'`\n" or one == closing]
    return min((end for end in ends if end >= 0), default=limit)


def redact_cookie(value: str) -> str:
    """Redact the random-looking parts of a value such as `sid=…; theme=dark`."""
    return _COOKIE_PAIR.sub(_kept_lead("cookie", _is_cookie), value)


def _is_cookie(value: str) -> bool:
    return looks_random(value) and not _DATE.match(value) and not TEMPLATE.search(value)


def redact_netrc(scanned: Scanned) -> str:
    return scanned.sub(_NETRC, _kept_lead("password", _any), {"machine": b" \t\r\n\\", "default": b" \t\r\n\\"})


def redact_pgpass(scanned: Scanned) -> str:
    return scanned.sub(_PGPASS, _kept_lead("password", _any), {"543": b"0123456789:"})


def redact_user_option(scanned: Scanned) -> str:
    """`curl -u user:password`."""
    return _USER_OPTION.sub(_kept_lead("basic-auth", lambda value: not value.isdecimal()), scanned.text)


def _kept_lead(kind: str, secret: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    """Return a replacement that keeps the first and third group and puts a mark for the second if it is secret."""

    def replaced(match: re.Match[str]) -> str:
        if match[2].startswith("[redacted:") or not secret(match[2]):
            return match[0]
        return f"{match[1]}[redacted:{kind}]{match[3] if match.re.groups > 2 else ''}"

    return replaced


def _any(_: str) -> bool:
    return True
