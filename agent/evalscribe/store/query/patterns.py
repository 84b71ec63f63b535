"""Translate regular expressions for `~`, `~*`, `!~` and `!~*` from Postgres syntax to Python syntax.

Queries on SQLite use Python's regular expressions, because SQLite has none of its own.
"""

import re
from collections.abc import Iterator

LONGEST = 1_000
MOST_TIMES = 255
"""Maximum number of repetitions in a quantifier such as `{n}`, the same as in Postgres."""
# A `]` right after `[` or `[^` is an ordinary character. `[[.` and `[[=` are refused: Python has no collating elements.
# So are groups that begin with `(?`, except `(?:`, because their meaning differs.
_TOKEN = re.compile(
    r"""(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\[:\w+:\]|\\.|\[(?![:.=])|[^\]\\\[])*\])|(?P<open>\((?:\?:)?(?!\?))"""
    r"""|(?P<times>(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??)|(?P<plain>[^\\\[(){}*+?])|(?P<close>\))""",
    re.S,
)
_PART = re.compile(r"\[:(\w+):\]|\\(.)|(.)", re.S)
# In Python, `$` also matches before a line break at the end of the text, and `\Z` does not.
_ANCHORS = {"^": r"\A", "$": r"\Z", "|": "|"}
_PLACES = {r"\A": r"\A", r"\Z": r"\Z", r"\y": r"\b", r"\Y": r"\B", r"\m": r"\b(?=\w)", r"\M": r"\b(?<=\w)"}
_SIGNS = {name: f"\\{name}" for name in "dDwWsSnrtfv"}
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "xdigit": "0-9a-fA-F",
}


class UnsupportedPattern(ValueError):
    """Raised for a pattern that is invalid or not supported."""


def as_python(pattern: str) -> str:
    """Translate a regular expression to Python syntax.

    Raises `UnsupportedPattern` if the expression is invalid or too long, or if it could have a different meaning in
    Python.
    """
    if len(pattern) > LONGEST:
        raise UnsupportedPattern(f"there are {len(pattern):,} characters; the maximum is {LONGEST:,}")
    written = "".join(_parts(pattern))
    try:
        re.compile(written, re.ASCII | re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnsupportedPattern(f"it is invalid: {error}") from None
    return written


def _parts(pattern: str) -> Iterator[str]:
    place, atom = 0, False
    while place < len(pattern):
        match = _TOKEN.match(pattern, place)
        if match is None:
            raise UnsupportedPattern(f"{pattern[place : place + 10]!r} is not supported")
        text, place = match[0], match.end()
        # Postgres refuses a quantifier after another quantifier or an anchor. Python would read `a*+` in its own way.
        if match["times"] and not atom:
            raise UnsupportedPattern(f"{text} has nothing to repeat before it")
        anchor = text in _ANCHORS or text in _PLACES
        atom = not (match["times"] or match["open"] or anchor)
        yield _written(text, str(match.lastgroup))


def _written(text: str, kind: str) -> str:
    if kind == "escape":
        return _PLACES.get(text) or _escaped(text[1])
    if kind == "set":
        return _set(text)
    if kind == "times":
        if any(int(number) > MOST_TIMES for number in re.findall(r"\d+", text)):
            raise UnsupportedPattern(f"{text} repeats more than {MOST_TIMES} times")
        return text
    if kind == "plain":
        return _ANCHORS.get(text) or (text if text == "." else re.escape(text))
    # Groups need no numbers, because a query only asks whether the pattern matches.
    return "(?:" if kind == "open" else text


def _escaped(sign: str) -> str:
    if sign == "b":
        raise UnsupportedPattern(r"write a word boundary as \y")
    if sign in _SIGNS:
        return _SIGNS[sign]
    if sign.isalnum() or sign == "_":
        raise UnsupportedPattern(f"\\{sign} is not supported")
    return re.escape(sign)


def _set(text: str) -> str:
    """Translate a set of characters, such as `[a-z]`."""
    inside = text[1:-1]
    negated = "^" if inside.startswith("^") else ""
    return f"[{negated}{''.join(map(_in_set, _PART.finditer(inside.removeprefix('^'))))}]"


def _in_set(part: re.Match[str]) -> str:
    name, escaped, plain = part.groups()
    if name:
        if name not in _CLASSES:
            raise UnsupportedPattern(f"[:{name}:] is not supported")
        return _CLASSES[name]
    if escaped:
        if escaped in "DWSb":
            raise UnsupportedPattern(f"\\{escaped} is not allowed inside []")
        return _escaped(escaped)
    return plain if plain == "-" else re.escape(plain)
