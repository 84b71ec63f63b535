"""Show untrusted text in prompts as delimited data, and estimate the number of tokens of a text."""

import json
import re
from collections.abc import Sequence

from evalscribe.ids import content_id

LONGEST_LINE = 1000
"""Maximum characters that are shown of a line. Longer lines are usually data."""
_BREAKS = dict.fromkeys(map(ord, "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")
# These are control characters, marks that reverse the direction of the text after them, and lone surrogates, which
# cannot be encoded.
_HIDDEN = "[\x00-\x08\x0e-\x1b\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
_UNSEEN = re.compile(_HIDDEN)
_UNSEEN_OR_BREAK = re.compile(f"{_HIDDEN}|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class Delimiter:
    """A delimiter that is derived from the content of a question and does not occur in that content."""

    def __init__(self, digest: str, contents: Sequence[str]) -> None:
        """Derive a delimiter from `digest`.

        No text in `contents` contains the delimiter, and equal arguments give the same delimiter.
        """
        self.tag = _tag(digest, contents)

    def block(self, about: str, lines: str) -> str:
        """Enclose lines in an opening and a closing delimiter. The description `about` must not contain line breaks."""
        return f"<{self.tag} {about}>\n{lines}\n</{self.tag}>"


def _tag(digest: str, contents: Sequence[str]) -> str:
    for salt in range(1000):
        tag = "evidence-" + content_id([digest, salt]).removeprefix("sha256:")[:12]
        if not any(tag in text for text in contents):
            return tag
    raise AssertionError("a thousand hashes of a text cannot all occur in it")


def number_lines(first: int, text: str, longest: int = LONGEST_LINE) -> str:
    """Prefix each line with its number (`12| return 1`), so that no line looks like a heading of the prompt."""
    return "\n".join(f"{n}| {one_line(line, longest)}" for n, line in enumerate(text.split("\n"), first))


def bar_lines(text: str) -> str:
    """Prefix each line with a bar."""
    return "\n".join(f"| {one_line(line)}" for line in text.split("\n"))


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """Return the text on one line, cut to `longest` characters.

    Line breaks become spaces, and invisible characters are made visible.
    """
    line = whole_line(text)
    if len(line) <= longest:
        return line
    return f"{line[:longest]} [… {len(line) - longest} characters more]"


def number_whole_lines(first: int, text: str) -> str:
    """Number the lines like `number_lines`, without shortening long lines."""
    return "\n".join(f"{n}| {show_invisible(line)}" for n, line in enumerate(text.split("\n"), first))


def whole_line(text: str) -> str:
    """Return the text on one line like `one_line`, without shortening it."""
    return show_invisible(text).replace("\n", " ")


def show_invisible(text: str) -> str:
    """Make the invisible characters of a multi-line text visible. Every line break in the result is a line feed."""
    if _UNSEEN_OR_BREAK.search(text) is None:
        return text
    # A single line of a file with Windows line endings still has its carriage return.
    return replace_invisible(text.removesuffix("\r").replace("\r\n", "\n").translate(_BREAKS))


def replace_invisible(text: str) -> str:
    """Replace each invisible character with U+FFFD. All offsets stay the same."""
    return _UNSEEN.sub("\ufffd", text)


def quote_json(text: str) -> str:
    """Return a name from the evidence as a JSON string on one line."""
    return json.dumps(text, ensure_ascii=True)


BYTES_PER_TOKEN = 3
"""Assumed bytes per token.

Code and tool output have three to four bytes per token. The lower number is used so that estimates are rarely too low.
"""


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text from its number of UTF-8 bytes, rounded up."""
    # An ASCII text has as many bytes as characters, so it need not be encoded.
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // BYTES_PER_TOKEN)
