"""One text without its secrets."""

import re

from evalscribe.redaction.assigned import redact_assigned, redact_credentials
from evalscribe.redaction.hints import EVERY, NONE, Hints, hints_in
from evalscribe.redaction.names import looks_random

_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----)){0,20000}+-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:\s{1,80}+[A-Za-z0-9+/=]{16,}+)*)"
)
_URL_LOGIN = re.compile(r"://([^\s/:@\"'`<>|]{0,200}+)(:[^\s/@\"'`<>]{1,400}+)?@")


def redact(text: str, hints: Hints | None = None) -> str:
    """The text with every secret replaced by `[redacted:<kind>]`. Keeps the number of lines; linear in the text.

    `hints`: what a larger text holds of which this is a part, where that was looked for already.
    """
    if hints is None:
        hints = hints_in(text)
    if hints == NONE:
        return text
    shown = _without_shapes(text, hints)
    if shown != text:
        hints, shown = EVERY, _without_shapes(text, EVERY)
    if hints.credentials:
        shown = redact_credentials(shown, hints.credentials)
    return redact_assigned(shown, hints.assigned) if hints.assigned else shown


def _without_shapes(text: str, hints: Hints) -> str:
    if hints.pem:
        text = _PEM.sub(_pem, text)
    for one in hints.tries:
        if one.hint in text:
            text = one.pattern.sub(one.mark, text)
    return _URL_LOGIN.sub(_url_login, text) if hints.login else text


def _pem(match: re.Match[str]) -> str:
    return "[redacted:private-key]" + "\n" * match[0].count("\n")


def _url_login(match: re.Match[str]) -> str:
    user, password = match[1], match[2]
    if password is None:
        return "://[redacted:basic-auth]@" if len(user) >= 20 and looks_random(user) else match[0]
    if password.startswith((":${", ":{", ":$", ":[redacted")) or user.startswith("[redacted"):
        return match[0]
    return f"://{user}:[redacted:basic-auth]@"
