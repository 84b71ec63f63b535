"""A text with the words that decide which patterns are tried on it."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

_WORDS: tuple[tuple[str, str], ...] = (
    *(
        (word, "")
        for word in ("key", "token", "secret", "pass", "pwd", "credential", "auth", "bearer", "basic", "cookie")
    ),
    *(("sig", ""), ("543", ""), ("://", ""), ("|", ""), ("%", ""), ("~", ""), ("\\", "")),
    *(("authorization", "auth"), ("private key", "key"), ("password", "pass"), ("machine", "password")),
    *(("default", "password"), ("curl", "://"), (":\\/", "\\"), ("%40", "%"), ("%7c", "%"), ("q~", "~")),
    *(("\x1b", ""), ("1b[", "\\")),
)
"""Words in lower case, each with a word that must be present for it to occur or to matter."""
_ENCODED = tuple((word, word.encode(), needed) for word, needed in _WORDS)
Following = Mapping[str, bytes]
"""Words in lower case, each with the characters that may follow it; empty if any may."""


class Scanned:
    """A text, a lower-case copy of the same length, and the words in it."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lowered(self) -> bytes:
        return self.text.encode("latin-1", "replace").lower()

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of `_WORDS` in the text."""
        lowered, found = self.lowered, {""}
        for word, encoded, needed in _ENCODED:
            if needed in found and encoded in lowered:
                found.add(word)
        return frozenset(found)

    def matches(self, pattern: re.Pattern[str], following: Following) -> Iterator[re.Match[str]]:
        """Like `pattern.finditer`, for a pattern that begins with one of the words.

        The pattern is tried only at these words, which takes a hundredth of the time.
        """
        passed = 0
        for start in self._places(following):
            if start >= passed and (match := pattern.match(self.text, start)):
                passed = match.end()
                yield match

    def sub(self, pattern: re.Pattern[str], replaced: Callable[[re.Match[str]], str], following: Following) -> str:
        """Like `pattern.sub`, for a pattern that begins with one of the words (see `matches`)."""
        pieces, end = [], 0
        for match in self.matches(pattern, following):
            if (shown := replaced(match)) != match[0]:
                pieces += [self.text[end : match.start()], shown]
                end = match.end()
        return "".join([*pieces, self.text[end:]]) if pieces else self.text

    def _places(self, following: Following) -> list[int]:
        lowered, found = self.lowered, []
        for word, after in following.items():
            encoded, length = word.encode(), len(word)
            at = lowered.find(encoded)
            while at >= 0:
                if not after or lowered[at + length : at + length + 1] in after:
                    found.append(at)
                at = lowered.find(encoded, at + 1)
        found.sort()
        return found
