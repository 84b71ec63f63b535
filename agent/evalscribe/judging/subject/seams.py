"""Where a quotation may be cut out of a text: never through a word, a number or an operator, never behind a negation.

So `port 350` is no quotation of `port 35076`, nor `ready` of `!ready`, `5` of `-5`, `= x` of `!= x`, `passes` of
`never passes`. What is left out elsewhere in a line is the reader's to judge: it is shown where the quotation stands.
"""

import re
import unicodedata

SEPARATOR = "\uffff"
"""Stands between two texts that are searched as one: no character of any writing, and replaced where text has it."""
_REACH = 24
"""Characters before a span that may hold a negation."""
_LINE_ENDS = frozenset(f"\n{SEPARATOR}")
_SPACE = _LINE_ENDS | {" "}
_PREFIXES = frozenset("!-+~.&*@#$\\%<")
"""Signs that change the word which they stand before."""
_NEGATING_PREFIXES = frozenset("!-+~")
_OPENING = frozenset("([{,;:=")
"""What a quotation may end with although a word follows at once: `query(`."""
_REPEATED = frozenset("()[]{}\"'`,;")
_SIGNS = r"(?:[=!<>+\-*/%&|^:~?@]=|[=\-<|]>|=[~!>]|<[\-|/>]|&&|\|\||\?[.:?]|/[*>/]|\*/|-%|!>)"
_OPERATOR = re.compile(_SIGNS)
_NEGATION = re.compile(r"(?:^|[^\w])(?:not|no|never|neither|nor|none|cannot|without|\w*n['\u2019]t|!) $", re.IGNORECASE)
_NEGATING_SIGNS = frozenset("不没沒无無未非别別勿莫")
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Writing without blanks between words: there is no telling where one ends."""


def at_seams(text: str, start: int, end: int) -> bool:
    """Whether the span can be cut out of a folded text without changing what it says."""
    before, after = text[max(0, start - _REACH) : start], text[end : end + 2]
    emphasised = before.endswith("*") and after.startswith("*")
    return (emphasised or _left(before, text[start])) and _right(text[end - 1], after)


def _left(before: str, first: str) -> bool:
    outer = before[-1:]
    if not outer or outer in _LINE_ENDS:
        return True
    if outer == " ":
        return not _NEGATION.search(before.rpartition("\n")[2])
    if _in_word(outer):
        return _both_unspaced(outer, first) and outer not in _NEGATING_SIGNS
    if not _in_word(first):
        return outer not in _NEGATING_PREFIXES and not _one_operator(outer, first)
    inner = before[-2:-1]
    if outer in "'\u2019":
        return not _in_word(inner)
    return outer not in _PREFIXES and not _one_number(inner, outer, first) and not before.endswith(("//", "</"))


def _right(last: str, after: str) -> bool:
    outer, beyond = after[:1], after[1:]
    if not outer or outer in _SPACE:
        return True
    if _in_word(outer):
        return last in _OPENING or _both_unspaced(last, outer)
    if not _in_word(last):
        return not _one_operator(last, outer)
    if outer in ".-@$'\u2019#":
        return not _in_word(beyond) and not (outer == beyond == "-")
    if outer == "!":
        return not beyond or beyond in _SPACE or beyond in "\"'*"
    if outer in "+?":
        return beyond not in ("+", ".", ":", "?") or (outer, beyond) in (("+", "."), ("+", ":"))
    return not (outer == "%" and last.isdigit()) and not _one_number(last, outer, beyond)


def _in_word(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character == "_"
    return character.isalnum() or unicodedata.category(character).startswith("M")


def _both_unspaced(one: str, other: str) -> bool:
    return bool(_UNSPACED.match(one) and _UNSPACED.match(other))


def _one_number(left: str, between: str, right: str) -> bool:
    return between in ",:/" and left.isdigit() and right.isdigit()


def _one_operator(left: str, right: str) -> bool:
    return bool(_OPERATOR.match(left + right)) or (left == right and left not in _REPEATED)
