"""One text without its secrets."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from evalscribe.redaction import assigned, places
from evalscribe.redaction.scanned import Scanned
from evalscribe.redaction.tokens import redact_keys

_ROUNDS = 4
"""A mark ends a word, so that what stood right behind it may only now be seen. Text that needs more rounds than this is
made for it."""
_NEAR = 4
"""Lines from a changed one on that are looked at again: a name may stand a line or two before its value."""
_NAMING = frozenset((*assigned.ASSIGNED, "cookie"))


class Pass(NamedTuple):
    """One way to find secrets."""

    words: frozenset[str]
    """Any of them, in lower case, stands in each text that this changes; empty where there is no such word."""
    redacted: Callable[[Scanned], str]


class Hints(NamedTuple):
    """What a text may hold, and any part of it; empty where there can be no secret."""

    passes: tuple[Pass, ...] = ()
    """Those that found something in it."""
    named: bool = False
    """Whether a member of the JSON value that the text was may have a name that makes its text a secret."""


NONE = Hints()


def redact(text: str, hints: Hints | None = None) -> str:
    """The text with every secret replaced by `[redacted:<kind>]`. Keeps the number of lines; linear in the text.

    `hints`: what a larger text holds of which this is a part, where that was looked for already.
    """
    shown = _applied(text, _PASSES if hints is None else hints.passes)
    for _ in range(_ROUNDS):
        if shown == text:
            break
        text, shown = shown, _around_changes(text, shown)
    return shown


def _around_changes(before: str, after: str) -> str:
    """The text with what stands around its changes redacted again: the rest of a long text needs no second look."""
    lines = after.split("\n")
    changed = [n for n, (one, other) in enumerate(zip(before.split("\n"), lines, strict=True)) if one != other]
    pieces, end = [], 0
    for n in changed:
        if n < end:
            continue
        stop = n + _NEAR
        pieces += [*lines[end:n], *_applied("\n".join(lines[n:stop]), _PASSES).split("\n")]
        end = stop
    return "\n".join([*pieces, *lines[end:]])


def hints_in(text: str) -> Hints:
    scanned = Scanned(text)
    found = tuple(one for one in _PASSES if _is_worth(one, scanned) and one.redacted(scanned) != text)
    return Hints(found, not scanned.words.isdisjoint(_NAMING))


def _applied(text: str, passes: Iterable[Pass]) -> str:
    scanned = Scanned(text)
    for one in passes:
        if _is_worth(one, scanned) and (shown := one.redacted(scanned)) != scanned.text:
            scanned = Scanned(shown)
    return scanned.text


def _is_worth(one: Pass, scanned: Scanned) -> bool:
    return not one.words or not one.words.isdisjoint(scanned.words)


def _redact_colored(scanned: Scanned) -> str:
    """Lines in which a color stands inside a secret, without their colors."""
    text = scanned.text
    if not places.COLOR_INSIDE.search(text):
        return text
    plain = places.COLOR.sub("", text)
    shown = _applied(plain, _PASSES[1:])
    lines = zip(text.split("\n"), plain.split("\n"), shown.split("\n"), strict=True)
    return "\n".join(one if before == after else after for one, before, after in lines)


def _pass(redacted: Callable[[Scanned], str], *words: str) -> Pass:
    return Pass(frozenset(words), redacted)


_PASSES = (
    _pass(_redact_colored, "\x1b", "1b["),
    _pass(places.redact_block, "private key"),
    _pass(redact_keys),
    _pass(places.redact_azure, "q~"),
    _pass(places.redact_convex, "|", "%7c"),
    _pass(places.redact_url_login, "://", ":\\/", "%40"),
    _pass(places.redact_signatures, "sig"),
    _pass(places.redact_cookies, "cookie"),
    _pass(places.redact_netrc, "machine", "default"),
    _pass(places.redact_pgpass, "543"),
    _pass(places.redact_user_option, "curl"),
    _pass(assigned.redact_credentials, "bearer", "basic", "authorization"),
    _pass(assigned.redact_assigned, *assigned.ASSIGNED),
)
