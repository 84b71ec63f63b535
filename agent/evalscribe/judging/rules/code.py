"""Source text as the rules see it: without comments, as lines without white space, and as names.

A comment is what the model says about its code, so nothing in it may decide a label.
"""

import re
from collections.abc import Iterable

HASH_COMMENTS = frozenset({"py", "pyi", "sh", "bash", "rb", "toml", "yaml", "yml", "cfg", "ini", "pl", "r"})
STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`'
DOCSTRING = re.compile(r"^[ \t]*[rRuUbB]{0,2}(\"\"\"|''').*?(?:\1|\Z)", re.DOTALL | re.MULTILINE)
"""A triple-quoted string that is a statement of its own."""
SLASHES = re.compile(rf"({STRING})|/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
HASHES = re.compile(rf'("""(?:.*?)"""|\'\'\'(?:.*?)\'\'\'|{STRING})|#[^\n]*', re.DOTALL)
NAME = re.compile(r"[A-Za-z_$][\w$]*+")
DECLARED = re.compile(
    r"\b(?:const|let|var|function|class|def|type|interface|import|for|as|with)\s+(?:await\s+|\*\s*)?([A-Za-z_$][\w$]*+)"
    r"|(?<![\w$])([A-Za-z_$][\w$]*+)\s*+(?:=(?!=)|:|\)?\s*=>|,|\))"
)
CAMEL = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
LONGEST = 200_000
"""Characters of one file that are looked at: longer ones are generated or hostile."""


def without_comments(text: str, path: str) -> str:
    """The code with every comment and docstring blanked; line numbers stay as they are."""
    text = text[:LONGEST]
    if path.rsplit(".", 1)[-1].lower() not in HASH_COMMENTS:
        return SLASHES.sub(lambda m: m.group(1) or _blank(m), text)
    return HASHES.sub(lambda m: m.group(1) or _blank(m), DOCSTRING.sub(_blank, text))


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group(0))


def fold(text: str) -> str:
    """Without white space and trailing commas, so that formatting makes no difference."""
    return re.sub(r"\s+|,(?=\s*[)\]}]|\s*$)", "", text)


def names(text: str) -> frozenset[str]:
    """Every identifier of the text."""
    return frozenset(NAME.findall(text))


def says(text: str, name: str) -> bool:
    """Whether a text holds a name, not only as part of a longer one."""
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", text) is not None


def declared(text: str) -> frozenset[str]:
    """The identifiers that the code itself introduces: variables, parameters, keys."""
    return frozenset(name for pair in DECLARED.findall(text) for name in pair if name)


def parts(name: str) -> tuple[str, ...]:
    """`pathPrefix` → `("path", "prefix")`."""
    return tuple(part.lower() for part in CAMEL.findall(name))


def kebab(text: str, longest: int = 48) -> str:
    """A short name made of a longer text: `kebab-case`, cut at a word."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", text).lower())
    while len(words) > 1 and len("-".join(words)) > longest:
        words.pop()
    return "-".join(words)[:longest] or "unnamed"


def joined(texts: Iterable[str]) -> str:
    return "\n".join(texts)
