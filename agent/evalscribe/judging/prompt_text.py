"""Show untrusted text in prompts as delimited data, and estimate what a text costs in tokens."""

import json
import re
from collections.abc import Sequence

from evalscribe.ids import canonical_json, content_id
from evalscribe.model.finding import Failure

LONGEST_LINE = 1000
"""Characters of one line that are shown; what is longer is data, not code that somebody wrote."""
_BREAKS = dict.fromkeys(map(ord, "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")
_HIDDEN = "[\x00-\x08\x0e-\x1b\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
_UNSEEN = re.compile(_HIDDEN)
_UNSEEN_OR_BREAK = re.compile(f"{_HIDDEN}|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class Delimiter:
    """The delimiter of one question: made from its content, and found nowhere in it."""

    def __init__(self, digest: str, contents: Sequence[str]) -> None:
        """`digest` makes the delimiter the same for the same content; `contents`: what it must not be in."""
        self.tag = _tag(digest, contents)

    @classmethod
    def of(cls, case: Failure) -> "Delimiter":
        return cls(case.evidence.digest, (canonical_json(case),))

    def block(self, about: str, lines: str) -> str:
        """Lines between an opening and a closing delimiter; `about` must be free of line ends."""
        return f"<{self.tag} {about}>\n{lines}\n</{self.tag}>"


def _tag(digest: str, contents: Sequence[str]) -> str:
    for salt in range(1000):
        tag = "evidence-" + content_id([digest, salt]).removeprefix("sha256:")[:12]
        if not any(tag in text for text in contents):
            return tag
    raise AssertionError("a thousand hashes of a text cannot all stand in it")


def number_lines(first: int, text: str) -> str:
    """Lines behind their numbers, so that none of them can pass for a heading: `12| return 1`."""
    return "\n".join(f"{n}| {one_line(line)}" for n, line in enumerate(text.split("\n"), first))


def bar_lines(text: str) -> str:
    """Lines without numbers of their own, each behind a bar."""
    return "\n".join(f"| {one_line(line)}" for line in text.split("\n"))


def one_line(text: str) -> str:
    """A text that stays on one line: line ends become blanks, what cannot be seen becomes visible."""
    line = whole_line(text)
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:LONGEST_LINE]} [… {len(line) - LONGEST_LINE} characters more]"


def number_whole_lines(first: int, text: str) -> str:
    """`number_lines` with lines of any length."""
    return "\n".join(f"{n}| {show_invisible(line)}" for n, line in enumerate(text.split("\n"), first))


def whole_line(text: str) -> str:
    """`one_line` of any length."""
    return show_invisible(text).replace("\n", " ")


def show_invisible(text: str) -> str:
    """A text of any number of lines: only `\\n` ends one, and what cannot be seen becomes visible."""
    if _UNSEEN_OR_BREAK.search(text) is None:
        return text
    return replace_invisible(text.removesuffix("\r").replace("\r\n", "\n").translate(_BREAKS))


def replace_invisible(text: str) -> str:
    """Each character that cannot be seen as a replacement character; every other stays where it is."""
    return _UNSEEN.sub("\ufffd", text)


def quote_json(text: str) -> str:
    """A name out of the evidence as a JSON string on one line."""
    return json.dumps(text, ensure_ascii=True)


BYTES_PER_TOKEN = 3
"""Code and tool output run at three to four bytes a token; the lower figure keeps a budget on the safe side."""


def estimate_tokens(text: str) -> int:
    """Tokens of a text, rounded up; 0 for an empty one. Other scripts than Latin count by their UTF-8 bytes."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // BYTES_PER_TOKEN)
