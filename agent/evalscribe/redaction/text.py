"""One text without its secrets."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from evalscribe.redaction import assigned, places
from evalscribe.redaction.scanned import Scanned
from evalscribe.redaction.tokens import redact_keys

_ROUNDS = 4
"""A mark ends a word, so a key directly after it may be found only in the next round. Only text constructed for the
purpose needs more rounds than this."""
_NEAR = 4
"""Lines that are checked again from a changed one on, because a name may be a line or two before its value."""
_NAMING = frozenset((*assigned.ASSIGNED, "cookie"))


class Pass(NamedTuple):
    """One way to find secrets."""

    words: frozenset[str]
    """Words in lower case: the pass changes only texts with at least one of them. Empty if there is no such word."""
    redacted: Callable[[Scanned], str]


class Hints(NamedTuple):
    """Which secrets a text and its parts may hold; empty if none."""

    passes: tuple[Pass, ...] = ()
    """The passes that found something in the text."""
    named: bool = False
    """Whether the text, if it is JSON, may have a member whose name makes its value a secret."""


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
    """Redact again around the changed lines; the rest of a long text needs no second pass."""
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
    """Redact secrets that are interrupted by color codes; such lines lose their colors."""
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
