"""What a reader would take for a citation, wherever it comes from."""

import re
import unicodedata

from evalscribe.discuss.dossier import REPORT
from evalscribe.model.evidence import ROLES
from evalscribe.text import visible

_PLACES = "|".join(ROLES)
NAMED = rf"(?:(?:{_PLACES})[ \t]{{1,9}}\S|(?:failure|{REPORT})(?![A-Za-z0-9_-]))"
BARE = rf"(?:{_PLACES})\s*\Z"
"""A role that nothing follows."""
NUMBERED = r"(?:(?:finding[ \t])?#?([0-9]{1,6})[,:]?[ \t]{1,9})"
START = re.compile(rf"\[[ \t]{{0,9}}{NUMBERED}?(?={NAMED})", re.IGNORECASE)
"""Whatever a reader would take for a citation begins like this; whether it is one is decided when it is whole."""
UNDECIDED = re.compile(r"[^\]\n]{0,60}\Z")
"""After a bracket: too little to tell whether it begins a citation."""
_OPENERS = "\\[［【〔〖〚❲⟦⟬⁅⦋⦍⦏﹝⌈⌊⎡⎣｢「"
OPENING = re.compile(f"[{_OPENERS}]")
"""What could be read as the bracket that opens a citation."""
_BRACKET = re.compile(rf"[{_OPENERS}\]]")
_REACH = 61
"""Characters in which a citation has begun, if it ever does."""
_ALIKE = {
    "a": "аαɑᴀ",
    "c": "сϲᴄ",
    "d": "ԁᴅ",
    "e": "еєεҽᴇ",
    "f": "ƒꜰ",
    "g": "ɡցɢ",
    "i": "іιıɪ",
    "k": "кκᴋ",
    "l": "ӏʟ",
    "n": "пηոɴ",
    "o": "оοօᴏ",
    "p": "рρᴘ",
    "r": "гʀᴦ",
    "s": "ѕꜱ",
    "t": "тτᴛ",
    "u": "υսᴜ",
    "w": "ԝωᴡ",
    "x": "хχ",
}
"""Letters of other scripts, in lower case, that look like those of the words in a citation."""
_LATIN = str.maketrans({other: letter for letter, others in _ALIKE.items() for other in others})
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


def forged(words: str, at: int = 0) -> bool:
    """Whether the opening bracket there seems to begin a citation and begins none: some of it is of another script.

    Every citation that is shown has a number or is one of the report.
    """
    begun = words[at : at + _REACH]
    if begun.isascii() or START.match(words, at):
        return False
    latin = unicodedata.normalize("NFKC", begun[1:]).lower().translate(_LATIN)
    folded = "[" + "".join(map(_digit, latin))
    found = START.match(folded)
    return found is not None and (found[1] is not None or folded.startswith(REPORT, found.end()))


def _digit(character: str) -> str:
    return str(unicodedata.decimal(character, character))


def inert(words: str) -> str:
    """Quoted words that neither begin a citation of their own nor close the bracket in which they are shown."""
    depth = 0

    def harmless(bracket: re.Match[str]) -> str:
        nonlocal depth
        if bracket[0] not in "[]":
            return "(" if forged(words, bracket.start()) else bracket[0]
        if bracket[0] == "[":
            begins = START.match(words, bracket.start()) or forged(words, bracket.start())
            depth += not begins
            return "(" if begins else "["
        depth -= 1
        if depth < 0:
            depth = 0
            return ")"
        return "]"

    return _BRACKET.sub(harmless, words)
