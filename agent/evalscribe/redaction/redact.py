"""Remove secrets from text and JSON values."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from pydantic import JsonValue

from evalscribe.errors import UsageError
from evalscribe.json_data import collect_strings
from evalscribe.redaction import patterns
from evalscribe.redaction.keys import redact_keys
from evalscribe.redaction.patterns import SHORT, ScannedText, is_secret, kind_of, may_name, redact_cookie, redact_header
from evalscribe.text import cut, printable

_ROUNDS = 4
"""Maximum number of rounds of redaction after the first round. In one round, a key directly after a redaction mark can
be missed. Only hostile text would need more rounds."""
_NEAR = 4
"""Number of lines, starting with a changed line, that are redacted again. Several lines are needed because a value can
be one or two lines below its name."""
_NAMING = frozenset((*patterns.ASSIGNED, "cookie"))


class RedactionPass(NamedTuple):
    """A function that redacts one kind of secret."""

    words: frozenset[str]
    """Words in lower case. The pass can only change a text that contains one of these words. If there are no words, the
    pass can change any text."""
    redacted: Callable[[ScannedText], str]


class Hints(NamedTuple):
    """The redaction passes that a text and its parts need. `find_hints` finds them by scanning the text once."""

    passes: tuple[RedactionPass, ...] = ()
    """The redaction passes that changed the text."""
    has_secret_names: bool = False
    """True if the text is JSON and might contain a member whose name shows that its value is a secret."""


NO_HINTS = Hints()


def redact(text: str, hints: Hints | None = None) -> str:
    """Replace every secret with `[redacted:<kind>]`. The number of lines does not change. Redaction takes linear time.

    `hints` are the hints of a larger text that contains this text. None if no larger text was scanned.
    """
    redacted = _applied(text, _PASSES if hints is None else hints.passes)
    for _ in range(_ROUNDS):
        if redacted == text:
            break
        text, redacted = redacted, _around_changes(text, redacted)
    return redacted


def _around_changes(before: str, after: str) -> str:
    """Redact the text once more near the changed lines. The rest of the text does not need another round."""
    lines = after.split("\n")
    changed = [
        n
        for n, (line, redacted_line) in enumerate(zip(before.split("\n"), lines, strict=True))
        if line != redacted_line
    ]
    pieces, end = [], 0
    for n in changed:
        if n < end:
            continue
        stop = n + _NEAR
        pieces += [*lines[end:n], *_applied("\n".join(lines[n:stop]), _PASSES).split("\n")]
        end = stop
    return "\n".join([*pieces, *lines[end:]])


def find_hints(text: str) -> Hints:
    scanned = ScannedText(text)
    passes = tuple(
        redaction_pass
        for redaction_pass in _PASSES
        if _is_worth(redaction_pass, scanned) and redaction_pass.redacted(scanned) != text
    )
    return Hints(passes, not scanned.words.isdisjoint(_NAMING))


def _applied(text: str, passes: Iterable[RedactionPass]) -> str:
    scanned = ScannedText(text)
    for redaction_pass in passes:
        if _is_worth(redaction_pass, scanned) and (redacted := redaction_pass.redacted(scanned)) != scanned.text:
            scanned = ScannedText(redacted)
    return scanned.text


def _is_worth(redaction_pass: RedactionPass, scanned: ScannedText) -> bool:
    return not redaction_pass.words or not redaction_pass.words.isdisjoint(scanned.words)


def _redact_colored(scanned: ScannedText) -> str:
    """Redact secrets with color codes inside. A line with such a secret loses all its color codes."""
    text = scanned.text
    if not patterns.COLOR_INSIDE.search(text):
        return text
    plain = patterns.COLOR.sub("", text)
    # The first pass is this function.
    redacted = _applied(plain, _PASSES[1:])
    lines = zip(text.split("\n"), plain.split("\n"), redacted.split("\n"), strict=True)
    return "\n".join(
        line if plain_line == redacted_line else redacted_line for line, plain_line, redacted_line in lines
    )


def _pass(redacted: Callable[[ScannedText], str], *words: str) -> RedactionPass:
    return RedactionPass(frozenset(words), redacted)


_PASSES = (
    # A key with a color code inside must be found whole, before another pass redacts a part of it.
    _pass(_redact_colored, "\x1b", "1b["),
    _pass(patterns.redact_block, "private key"),
    _pass(redact_keys),
    _pass(patterns.redact_azure, "q~"),
    _pass(patterns.redact_convex, "|", "%7c"),
    _pass(patterns.redact_url_login, "://", ":\\/", "%40"),
    _pass(patterns.redact_signatures, "sig"),
    _pass(patterns.redact_cookies, "cookie"),
    _pass(patterns.redact_netrc, "machine", "default"),
    _pass(patterns.redact_pgpass, "543"),
    _pass(patterns.redact_user_option, "curl"),
    _pass(patterns.redact_credentials, "bearer", "basic", "authorization"),
    # Formats come before names, because they name the vendor: `API_KEY=sk-ant-…` becomes `[redacted:anthropic-key]`.
    _pass(patterns.redact_assigned, *patterns.ASSIGNED),
)


_redact_short = lru_cache(8192)(redact)
"""Redact a short text. The result is cached, because short texts, such as names and roles, often recur."""


def redact_json(value: object, hints: Hints | None = None) -> object:
    """Redact every string of a JSON value, including member names.

    A member is redacted like the text `name = value`. If there is nothing to redact, the same object is returned.
    `hints` are the hints of all strings in the value together. If they are None, they are computed.
    """
    if hints is None:
        # One scan of all strings together shows for most values that there is nothing to redact.
        hints = find_hints("\n".join(collect_strings(value)))
    return value if hints == NO_HINTS else _redacted(value, hints)


def _redacted(value: object, hints: Hints) -> object:
    if isinstance(value, str):
        return _text(value, hints)
    if isinstance(value, list):
        return [_redacted(item, hints) for item in value]
    if isinstance(value, dict):
        return _object(value, hints)
    return value


def _object(value: dict[object, object], hints: Hints) -> dict[str, object]:
    redacted = {_text(str(name), hints): _member(str(name), item, hints) for name, item in value.items()}
    # Headers and environment variables are often listed as `{"name": …, "value": …}`.
    if isinstance(member_name := value.get("name", value.get("key")), str) and "value" in value:
        redacted["value"] = _member(member_name, value["value"], hints)
    return redacted


def _member(name: str, value: object, hints: Hints) -> object:
    """Redact the value of a member. If the value is a list, each text in it is redacted like `name = text`."""
    if isinstance(value, list):
        return [_member(name, item, hints) for item in value]
    if not isinstance(value, str):
        return _redacted(value, hints)
    if may_name(name) and is_secret(name, value):
        return f"[redacted:{kind_of(name)}]"
    if len(name) <= SHORT:
        lowered = name.lower()
        if "cookie" in lowered:
            value = redact_cookie(value)
        elif lowered.endswith("authorization"):
            value = redact_header(value)
    return _text(value, hints)


def _text(text: str, hints: Hints) -> str:
    if not hints.passes:
        return text
    # A cached result must not depend on the hints of one value, so short texts go through all passes.
    return _redact_short(text) if len(text) <= SHORT else redact(text, hints)


MAX_MESSAGE = 300


def safe_message(message: str, *secrets: str) -> str:
    """Return a message as one line of limited length, without control characters and secrets."""
    for secret in filter(None, secrets):
        message = message.replace(secret, "[redacted:key]")
    # A message can be as long as an answer, so it is cut before redaction to bound the time. The limit is reached only
    # after redaction, because half of a key would not be recognised.
    return cut(printable(" ".join(redact(message[: MAX_MESSAGE * 20]).split())), MAX_MESSAGE)


def require_no_secret(value: JsonValue, where: str, instead: str = "remove it", fields: tuple[str, ...] = ()) -> None:
    """Raise `UsageError` if a value contains a secret.

    The message refers to the value as `where`, does not quote the value, and ends with the advice `instead`. `fields`
    is passed to the error.
    """
    if redact_json(value) != value:
        raise UsageError(
            f"{where} contains what looks like a secret, and secrets are not stored: {instead}", fields=fields
        )
