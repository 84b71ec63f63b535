"""What a text may hold, by what is nearly free to look for: patterns are tried only where one of their hints stands."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from evalscribe.redaction.shapes import SHAPES, began

CREDENTIALS = ("bearer", "basic", "authorization")
"""Words that a secret follows, in lower case."""
ASSIGNED = ("key", "token", "secret", "passw", "passphrase", "pwd", "credential", "authorization")
"""How names begin to which secrets are assigned, in lower case."""
_PEM, _LOGIN = "-----BEGIN", "://"


class Try(NamedTuple):
    """A pattern that is worth trying."""

    order: int
    hint: str
    pattern: re.Pattern[str]
    mark: str
    leads: bool


class Hints(NamedTuple):
    """What a text may hold, and any part of it; all empty where there can be no secret."""

    tries: tuple[Try, ...] = ()
    pem: bool = False
    login: bool = False
    credentials: tuple[str, ...] = ()
    assigned: tuple[str, ...] = ()


NONE = Hints()


def hints_in(text: str) -> Hints:
    lowered = text.lower()
    return Hints(
        tries=tuple(sorted(_tries(text))),
        pem=_PEM in text,
        login=_LOGIN in text,
        credentials=tuple(word for word in CREDENTIALS if word in lowered),
        assigned=tuple(word for word in ASSIGNED if word in lowered),
    )


def _tries(text: str) -> Iterator[Try]:
    for anchor, found, several in _ANCHORED:
        if anchor in text and found(text):
            yield from (one for one in several if one.hint in text)


_ANCHORS = "|JKAx_:-/."
"""Characters of hints, the rare ones first: a text is searched for one of them far sooner than for a whole hint."""


def _anchored() -> Iterator[tuple[str, Callable[[str], object], list[Try]]]:
    """Per anchor the search that tells whether any of its hints is there."""
    by_anchor: dict[str, list[Try]] = defaultdict(list)
    every = ((hint, shape) for shape in SHAPES for hint in shape.hints)
    for order, (hint, shape) in enumerate(every):
        anchor = next((one for one in _ANCHORS if one in hint), hint)
        by_anchor[anchor].append(Try(order, hint, shape.pattern, f"[redacted:{shape.kind}]", shape.leads))
    for anchor, tries in by_anchor.items():
        yield anchor, re.compile(_any_of(anchor, tries)).search, tries


def _any_of(anchor: str, tries: Iterable[Try]) -> str:
    """A pattern that begins with the anchor, for which the engine searches at once, and looks back from there."""
    around: dict[tuple[int, str, bool], set[str]] = defaultdict(set)
    for one in tries:
        before, _, after = one.hint.rpartition(anchor)
        around[len(before), after, one.leads].add(re.escape(before + anchor))
    several = (
        f"(?<={'|'.join(sorted(lead))}){began(length + len(anchor)) if leads else ''}{re.escape(after)}"
        for (length, after, leads), lead in around.items()
    )
    return f"{re.escape(anchor)}(?:{'|'.join(several)})"


_ANCHORED = tuple(_anchored())
EVERY = Hints(
    tries=tuple(sorted(one for _, _, tries in _ANCHORED for one in tries)),
    pem=True,
    login=True,
    credentials=CREDENTIALS,
    assigned=ASSIGNED,
)
"""Where a secret was found: what begins behind it may be another, and its mark may be the name of what follows."""
