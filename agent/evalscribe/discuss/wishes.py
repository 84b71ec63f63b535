"""What a line typed in a discussion asks for, where it is no question."""

import re

_RECOMMENDATIONS = r"R[0-9]{1,6}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s+)R[0-9]{1,6})*"
_IMPLEMENT = re.compile(
    rf"\s*(?:please\s+)?(?:implement|apply)\s+({_RECOMMENDATIONS})(?:\s*,?\s*please)?\s*[.!]?\s*", re.IGNORECASE
)
_ENDS = frozenset(("q", "quit", "exit"))


def wanted(line: str) -> tuple[str, ...]:
    """Ids of the recommendations that a person asks to have implemented: `please implement R2 and R3`.

    Only a whole line that says nothing else: what is asked in passing is a question.
    """
    found = _IMPLEMENT.fullmatch(line)
    return tuple(dict.fromkeys(id.upper() for id in re.findall(r"R[0-9]+", found[1], re.IGNORECASE))) if found else ()


def ends(line: str) -> bool:
    return line.strip().casefold() in _ENDS
