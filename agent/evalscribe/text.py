"""Normalise text from people and models, and format words for messages."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Annotated
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator

TEXT_LIMIT = 2000
NAME_LIMIT = 240
URL_LIMIT = 2000
HAZARD = re.compile(r"[\\*<\[$@]|&#?\w+;|://|www\.|#\d|\bGH-\d|~~|\w~|(?<!\w)_|_(?!\w)", re.IGNORECASE)
"""Matches characters that GitHub could interpret as markup.

Escaping these characters with backslashes is not enough, because GitHub removes backslashes before it looks for
mentions and links. Only a code span is safe.
"""
# At the start of a line these begin a heading, a quotation, a list or a table. A line that begins with `Reviewer:`
# would be read as the statement of a person.
BLOCK_START = re.compile(r"[#>+=|:-]|\d+[.)]$|reviewers?\b", re.IGNORECASE)
PARENTHESIS = re.compile(r"[()]")
WORD = re.compile(r"\s+|(?:\[[^\[\]]{1,60}\]|\S)+")
"""Matches a word or whitespace. Text in square brackets counts as one word, so that it becomes a single code span."""
_Y_AFTER_CONSONANT = re.compile(r"[^aeiou]y$")
SPACES = str.maketrans(dict.fromkeys("\v\f\x85\u2028\u2029", " "))


def visible(text: str) -> str:
    r"""Remove control, format and bidirectional characters except tabs, and normalise line ends to `\n`."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(SPACES)
    invisible = [ord(character) for character in set(text) if not is_visible(character)]
    return text.translate(dict.fromkeys(invisible)) if invisible else text


def is_visible(character: str) -> bool:
    """Return True if a terminal shows the character.

    The result is False for control characters and invisible characters, and True for line ends and tabs.
    """
    if character in "\n\t":
        return True
    point = ord(character)
    no_character = point & 0xFFFE == 0xFFFE or 0xFDD0 <= point <= 0xFDEF
    return not no_character and unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def printable(text: str) -> str:
    """Replace characters that cannot be printed on one line with U+FFFD.

    U+FFFD shows the reader that a character was replaced.
    """
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def one_line(text: str) -> str:
    """Return a text on one line, without invisible characters. Each sequence of whitespace becomes a space."""
    return " ".join(visible(text).split())


def cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


_BETWEEN = re.compile(r",? (?:but )?(?:got|instead of|received|found|!=|==) ")
"""Matches the words or operators that stand between the two compared values in an error message."""


def contrast(text: str, limit: int) -> str:
    """Shorten a text that compares two values, so that it shows their first difference: `want {… 'a': 1 …}, got {… 'a':
    2 …}`.

    Returns an empty text if the text does not compare two values, or if the result would be longer than `limit`.
    """
    match = _BETWEEN.search(text)
    if match is None:
        return ""
    right = text[match.end() :]
    start = max(text.find(right[:1], 0, match.start()), 0) if right[:1] in ("{", "[", "(", '"', "'", "`") else 0
    left = text[start : match.start()]
    # If one side is the beginning of the other, they differ where the shorter one ends.
    same = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    marks = (mark for mark in (", ", "{", "[", "(") if mark in left[:same])
    item = max((left.rfind(mark, 0, same) + len(mark) for mark in marks), default=0)
    shown = [text[:start], _item(left, item, same), match.group(), _item(right, item, same)]
    return "".join(shown) if len("".join(shown)) <= limit else ""


def _item(text: str, start: int, differs: int) -> str:
    """Shorten the text of a list or object to its outer brackets and the item that contains the offset `differs`."""
    end = next((n for n in range(differs, len(text)) if text[n] in ",}])"), len(text))
    before = f"{text[:1]}… " if start > 1 else text[:start]
    after = f", …{text[-1]}" if end < len(text) - 1 else text[end:]
    return before + text[start:end] + after


def pluralise(number: int, noun: str) -> str:
    """Format a number with a noun in the singular or plural: `1 subject`, `2 subjects`; `1 try`, `2 tries`."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if _Y_AFTER_CONSONANT.search(noun) else f"{noun}s"
    return f"{number:,} {plural}"


def join_first(names: Sequence[str], most: int) -> str:
    """Join the first `most` names with commas and append how many more there are: `a, b, c and 4 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def join_last(names: Sequence[str], most: int) -> str:
    """Join the last `most` names with commas and append how many more there are.

    Use this function for lists whose newest item is last.
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[-most:]) + more


def dollars(cost: float) -> str:
    """Format a cost in USD. A positive cost that would be rounded to zero is shown as `under $0.01`."""
    return "under $0.01" if 0 < cost < 0.005 else f"${cost:.2f}"


def name(text: str) -> str:
    """Return a name on one line.

    A long name is cut and ends with a hash, so that two long names with the same beginning stay distinct.
    """
    text = one_line(text) or "unnamed"
    if len(text) <= NAME_LIMIT:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: NAME_LIMIT - 9].rstrip()}…{digest}"


def path(text: str) -> str:
    """Normalise a path-like name, so that its parts are separated by single slashes without spaces."""
    return name("/".join(part.strip() for part in one_line(text).split("/") if part.strip()))


def slug(text: str) -> str:
    """Convert a text to a short name that has only letters, digits, `.`, `_` and `-`."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", one_line(text)).strip("-._")[:80].rstrip("-._")


def web_url(url: str | None) -> str | None:
    """Return an http(s) address with special characters quoted, so that the address cannot end a markdown link early.

    Returns None if `url` is not a valid http(s) address or is too long.
    """
    # `%` stays, because the address can already be percent-encoded.
    address = quote(one_line(url or ""), safe="%/:=&?~#+!$,@-._")
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return address if parts.scheme in ("http", "https") and parts.netloc and len(address) <= URL_LIMIT else None


def block(text: str) -> str:
    """Return a text of several lines without invisible characters, trailing whitespace, or blank lines at its start
    and end.
    """
    return "\n".join(line.rstrip() for line in visible(text).split("\n")).strip("\n")


def prose(text: str, limit: int = TEXT_LIMIT, also: re.Pattern[str] | None = None) -> str:
    """Normalise prose to one line of at most `limit` characters.

    Words that could be interpreted as markup, or that match `also`, are put into code spans.
    """
    # Code spans make the text longer, so it is cut until the result fits. The first cut bounds the time for a long
    # text.
    result = _guarded(one_line(text[: limit * 4]), also)
    keep = limit - 1
    while len(result) > limit:
        result = _guarded(result[:keep].rstrip() + "…", also)
        keep -= 8
    return result


def code_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end offset of each code span, as CommonMark defines code spans.

    Backslashes have no special meaning.
    """
    runs = [(match.start(), match.end()) for match in re.finditer("`+", text)]
    while runs:
        start, opened = runs.pop(0)
        close = next((i for i, run in enumerate(runs) if run[1] - run[0] == opened - start), None)
        if close is not None:
            yield start, runs[close][1]
            del runs[: close + 1]


def mask_code(text: str) -> str:
    """Replace every character in code spans by NUL, so that searches only find text outside code."""
    for start, end in code_spans(text):
        # The length stays the same, so that offsets in the result are offsets in the text.
        text = text[:start] + "\0" * (end - start) + text[end:]
    return text


def _guarded(text: str, also: re.Pattern[str] | None) -> str:
    guarded = ""
    for piece in _pieces(text, also):
        # Two code spans without a space between them would have one run of backticks in the middle and become one span.
        touching = guarded.endswith("`") and piece.startswith("`")
        guarded += f" {piece}" if touching else piece
    return guarded


def _pieces(text: str, also: re.Pattern[str] | None) -> Iterator[str]:
    """Yield the code spans of a text unchanged, and the words between the code spans.

    A word that could be interpreted as markup is put into a code span.
    """
    done = 0
    for start, end in code_spans(text):
        yield from _words(text[done:start], also, first=done == 0)
        yield text[start:end]
        done = end
    yield from _words(text[done:], also, first=done == 0)


def _words(plain: str, also: re.Pattern[str] | None, first: bool) -> Iterator[str]:
    # A backtick outside a code span could pair with one that is added.
    plain = plain.replace("`", "'")
    # Most texts contain no such word, and searching them as a whole takes half the time.
    start = WORD.match(plain) if first else None
    if not (HAZARD.search(plain) or (also and also.search(plain)) or (start and BLOCK_START.match(start[0]))):
        yield plain
        return
    for word in WORD.findall(plain):
        starts_block = first and BLOCK_START.match(word)
        first = False
        if starts_block or HAZARD.search(word) or (also and also.search(word)):
            yield from _as_code(word, entire=bool(starts_block))
        else:
            yield word


def _as_code(word: str, entire: bool) -> Iterator[str]:
    """Put a word into a code span. Punctuation at its end stays outside, unless `entire` is True."""
    tail = "" if entire else word[len(word.rstrip(".,;:!?")) :]
    core = word[: len(word) - len(tail)]
    yield from (f"`{core or word}`", tail if core else "")


Line = Annotated[str, AfterValidator(one_line)]
Name = Annotated[str, AfterValidator(name)]
EvalPath = Annotated[str, AfterValidator(path)]
Slug = Annotated[str, AfterValidator(slug)]
Block = Annotated[str, AfterValidator(block)]
Prose = Annotated[str, AfterValidator(prose)]
WebUrl = Annotated[str | None, AfterValidator(web_url)]
