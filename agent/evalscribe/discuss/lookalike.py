"""What a reader would take for a citation, wherever it comes from."""

import re

from evalscribe.discuss.dossier import REPORT
from evalscribe.evidence import ROLES
from evalscribe.prose import visible

_PLACES = "|".join(ROLES)
NAMED = rf"(?:(?:{_PLACES})[ \t]{{1,9}}\S|(?:failure|{REPORT})(?![A-Za-z0-9_-]))"
NUMBERED = r"(?:(?:finding[ \t])?#?([0-9]{1,6})[,:]?[ \t]{1,9})"
START = re.compile(rf"\[[ \t]{{0,9}}{NUMBERED}?(?={NAMED})", re.IGNORECASE)
"""Whatever a reader would take for a citation begins like this; whether it is one is decided when it is whole."""
UNDECIDED = re.compile(r"[^\]\n]{0,60}\Z")
"""After a bracket: too little to tell whether it begins a citation."""
_BRACKET = re.compile(r"[\[\]]")
_BLANK = re.compile(r"[^\S\n\t]")
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
"""Letters and marks that nothing is seen of."""


def seen(piece: str) -> str:
    """The piece as it is seen: what is invisible could stand inside a forged citation and keep it from being one."""
    if piece.isascii() and piece.isprintable():
        return piece
    return _UNSEEN.sub("", _BLANK.sub(" ", visible(piece.replace("\r", ""))))


def inert(words: str) -> str:
    """Quoted words that neither begin a citation of their own nor close the bracket in which they are shown."""
    depth = 0

    def harmless(bracket: re.Match[str]) -> str:
        nonlocal depth
        if bracket[0] == "[":
            begins = START.match(words, bracket.start())
            depth += not begins
            return "(" if begins else "["
        depth -= 1
        if depth < 0:
            depth = 0
            return ")"
        return "]"

    return _BRACKET.sub(harmless, words)
