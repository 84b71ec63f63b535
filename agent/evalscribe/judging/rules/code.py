"""Parse source code (remove comments, find identifiers) and notes on known gaps (find statements and terms)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from evalscribe.model.evidence import Document

HASH_COMMENTS = frozenset({"py", "pyi", "sh", "bash", "rb", "toml", "yaml", "yml", "cfg", "ini", "pl", "r"})
STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`'
DOCSTRING = re.compile(r"^[ \t]*[rRuUbB]{0,2}(\"\"\"|''').*?(?:\1|\Z)", re.DOTALL | re.MULTILINE)
"""Matches a triple-quoted string that is a statement of its own."""
# Strings are matched and kept, so that `//` in a URL or `#` in a text does not count as the start of a comment.
SLASHES = re.compile(rf"({STRING})|/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
HASHES = re.compile(rf'("""(?:.*?)"""|\'\'\'(?:.*?)\'\'\'|{STRING})|#[^\n]*', re.DOTALL)
NAME = re.compile(r"[A-Za-z_$][\w$]*+")
DECLARED = re.compile(
    r"\b(?:const|let|var|function|class|def|type|interface|import|for|as|with)\s+(?:await\s+|\*\s*)?([A-Za-z_$][\w$]*+)"
    r"|(?<![\w$])([A-Za-z_$][\w$]*+)\s*+(?:=(?!=)|:|\)?\s*=>|,|\))"
)
CAMEL = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
LONGEST = 200_000
"""Maximum characters that are read of one file. Longer files are generated or hostile."""


def without_comments(text: str, path: str) -> str:
    """Replace every comment and docstring with blanks. Line numbers stay the same."""
    text = text[:LONGEST]
    if path.rsplit(".", 1)[-1].lower() not in HASH_COMMENTS:
        return SLASHES.sub(lambda m: m.group(1) or _blank(m), text)
    return HASHES.sub(lambda m: m.group(1) or _blank(m), DOCSTRING.sub(_blank, text))


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group(0))


def fold(text: str) -> str:
    """Remove whitespace and trailing commas, so that texts that differ only in formatting are equal."""
    return re.sub(r"\s+|,(?=\s*[)\]}]|\s*$)", "", text)


def names(text: str) -> frozenset[str]:
    """Return all identifiers in the text."""
    return frozenset(NAME.findall(text))


SPELLED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`|\"[^\"\n]+\""
    # Matches a call from its start, such as `a.b.c(`. Possessive quantifiers prevent backtracking, so matching takes
    # linear time even for a long word that is not a call.
    r"|(?<![.@$\w])(?:[\w$]*+[.@]++)*+[^\WA-Za-z_]*+[A-Za-z_$][\w$]*+\("
    r"|\.[A-Za-z_$][\w$]*",
    re.DOTALL,
)
SHAPED = re.compile(r"\w_\w|[a-z][A-Z]")


def spelled(text: str) -> frozenset[str]:
    """Return the identifiers that a task writes as code.

    Ordinary words are left out. For example, `tuple` in the prose `a tuple of both` is not returned.
    """
    code_names = names("\n".join(SPELLED.findall(text)))
    indented = names("\n".join(line for line in text.split("\n") if line.startswith(("    ", "\t"))))
    return code_names | indented | frozenset(name for name in names(text) if SHAPED.search(name))


def without_prose(text: str) -> str:
    """Remove strings of several words, such as the titles of tests, from code."""
    return re.sub(STRING, lambda match: "" if " " in match[0] else match[0], text)


def says(text: str, name: str) -> bool:
    """Return whether a text contains a name as a whole word."""
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", text) is not None


def declared(text: str) -> frozenset[str]:
    """Return the identifiers that the code declares, including parameters and keys."""
    return frozenset(name for pair in DECLARED.findall(text) for name in pair if name)


def parts(name: str) -> tuple[str, ...]:
    """Split an identifier into words: `pathPrefix` → `("path", "prefix")`."""
    return tuple(part.lower() for part in CAMEL.findall(name))


def kebab(text: str, longest: int = 48) -> str:
    """Convert a text to a `kebab-case` name of at most `longest` characters, dropping words at the end."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", text).lower())
    while len(words) > 1 and len("-".join(words)) > longest:
        words.pop()
    return "-".join(words)[:longest] or "unnamed"


def joined(texts: Iterable[str]) -> str:
    return "\n".join(texts)


QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”|(?<!\w)'([^'\n]+)'(?!\w)")
LOOKS_LIKE_CODE = re.compile(r"[@.]?[\w$][\w$./@-]*[\w$]")
CODE_SHAPE = re.compile(r"[a-z][A-Z]|\w_\w|^@|\w/\w|\w\.\w|^[A-Z]{1,5}\d{2,5}$|\w-\w+-\w|[A-Za-z]-[a-z]+/")
NOTHING = re.compile(r"^(none|nothing|no (known )?(gaps?|issues?)|n/?a|todo|tbd)\b", re.IGNORECASE)
PRAISE = re.compile(r"\b(got it!?|looks? (great|good)|looking good|works (well|now)|doing better|i'm glad)\b", re.I)
SETTLED = re.compile(r"^\W*(resolved|fixed|done|no longer)\b", re.IGNORECASE)
LACKS = re.compile(
    r"(?:\b(?:not|without|w/o|missing|omits?|omitting|lacks?|lacking|forgets?|forgetting)\b|n't\b)(.*)", re.I
)
EMPTY_WORDS = """
    about actually after again also another asked asking because been being better but does doing explicitly from give
    good great have having instead into issue just know knows like line make makes maybe model models more most needs
    need only other otherwise really reason should some still struggles struggling such than that their them then
    there these they thing things think thinks this those tries trying using uses used wants want wanted what when
    where which while with would your telling told
    always correct correctly doesn ever fail failed failing fails gets getting keep keeps never often properly right
    sometimes usually wrong wrongly
"""
COMMON = frozenset(EMPTY_WORDS.split())
ENDINGS = ("ations", "ation", "ings", "ing", "ies", "es", "ed", "s")


def stem(word: str) -> str:
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def stems(text: str) -> frozenset[str]:
    """Return the stems of the significant words of a text. Identifiers are split: `storeFile` → `store`, `file`."""
    words = {part for name in names(text) for part in parts(name)}
    return frozenset(stem(word) for word in words if len(word) >= 4 and word not in COMMON)


def terms(text: str) -> tuple[str, ...]:
    """Return the terms of a text that are quoted or look like code, such as identifiers, lint rules and packages."""
    quoted = [next(g for g in groups if g) for groups in QUOTED.findall(text)]
    spelled = [word for word in LOOKS_LIKE_CODE.findall(QUOTED.sub(" ", text)) if CODE_SHAPE.search(word)]
    return tuple(dict.fromkeys(term for term in (*quoted, *spelled) if len(fold(term)) > 2))


@dataclass(frozen=True)
class GapNote:
    """One statement of a known-gaps document."""

    document: Document
    line: int
    text: str

    @cached_property
    def terms(self) -> tuple[str, ...]:
        return terms(self.text)

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Terms that the code lacks according to the note. Such terms follow `not`, `without` or a similar word."""
        return tuple(term for term in self.terms if term in self._after_lacks)

    @cached_property
    def missing_words(self) -> frozenset[str]:
        """Words that name what the code lacks according to the note, such as `an internal query` after `not using`."""
        return frozenset(re.findall(r"[a-z]+", self._after_lacks.lower()))

    @cached_property
    def _after_lacks(self) -> str:
        match = LACKS.search(self.text)
        return re.split(r"\binstead of\b|\bto access\b|[,;]\s*but\b", match.group(1))[0] if match else ""

    @cached_property
    def preferred(self) -> str:
        """Words after `instead of` in the note. These words name what the code should contain."""
        phrase = re.split(r"[.;,](?:\s|$)", self.text.partition("instead of")[2])[0]
        return re.sub(r"^\s*(?:an?|the|all)\s+", "", phrase).strip()

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Terms that the code should contain according to the note: missing terms, and terms after `instead of`."""
        return (*self.missing, *(term for term in terms(self.preferred) if term in self.terms))

    @cached_property
    def stems(self) -> frozenset[str]:
        return stems(self.text)


def parse_notes(documents: tuple[Document, ...]) -> tuple[GapNote, ...]:
    """Return the statements about gaps in known-gaps documents.

    Headings, lines such as `none for now`, praise and fixed gaps are left out.
    """
    notes = []
    for document in documents:
        for number, line in enumerate(document.lines, 1):
            text = line.strip().lstrip("-*•# ").strip()
            if text and not _is_no_gap(text, line):
                notes.append(GapNote(document, number, text))
    return tuple(notes)


def _is_no_gap(text: str, line: str) -> bool:
    heading = line.lstrip().startswith("#") or (text.endswith(":") and not line.lstrip().startswith(("-", "*", "•")))
    is_praise = PRAISE.search(text) and not re.search(r"\bbut\b|\bexcept\b", text, re.IGNORECASE)
    return bool(heading or NOTHING.match(text) or SETTLED.match(text) or is_praise)


def basename(path: str) -> str:
    return path.rsplit("/", 1)[-1]


LANGUAGE = """
    Array Boolean Buffer Date Error JSON Map Math Number Object Promise RegExp Response Set String Symbol URL add all
    allSettled append apply assign bind call catch concat console crypto delete endswith entries error every extend
    filter finally find findIndex flat flatMap floor fetch forEach format from fromEntries get getTime has
    hasOwnProperty includes indexOf info isArray isinstance items join json keys length log lower map match max min
    next now ok padStart parse parseFloat parseInt pop process push race random range reduce reject replace resolve
    reverse round set shift slice some sort splice split startsWith startswith status statusText stringify strip
    substring text then toFixed toISOString toLocaleString toLowerCase toString toUpperCase trim trunc unshift update
    upper value values warn
"""
BUILT_IN = frozenset(LANGUAGE.split())
"""Built-in names. Correct code can use them even if the reference does not."""
