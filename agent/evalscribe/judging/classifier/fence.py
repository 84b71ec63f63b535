"""Evidence as delimited data. It was written by a model under test, so it must be unable to close its delimiter."""

import json

from evalscribe.finding import Case
from evalscribe.ids import canonical_json, content_id

LONGEST_LINE = 1000
"""Characters of one line that are shown; what is longer is data, not code that somebody wrote."""
_BREAKS = dict.fromkeys(map(ord, "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")
_CONTROLS = (*range(9), *range(14, 28), 31, 127)
_TURNS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SURROGATES = range(0xD800, 0xE000)
_HIDDEN = dict.fromkeys((*_CONTROLS, *_TURNS, *_SURROGATES), "\ufffd")


class Fence:
    """The delimiter of one case: made from its content, and found nowhere in it."""

    def __init__(self, case: Case) -> None:
        everything = canonical_json(case)
        self.tag = _tag(case, everything)

    def block(self, about: str, lines: str) -> str:
        """Lines between an opening and a closing delimiter; `about` must be free of line ends."""
        return f"<{self.tag} {about}>\n{lines}\n</{self.tag}>"


def _tag(case: Case, everything: str) -> str:
    for salt in range(1000):
        tag = "evidence-" + content_id([case.evidence.digest, salt]).removeprefix("sha256:")[:12]
        if tag not in everything:
            return tag
    raise AssertionError("a thousand hashes of a text cannot all stand in it")


def numbered(first: int, text: str) -> str:
    """Lines behind their numbers, so that none of them can pass for a heading: `12| return 1`."""
    return "\n".join(f"{n}| {one_line(line)}" for n, line in enumerate(text.split("\n"), first))


def marked(text: str) -> str:
    """Lines without numbers of their own, each behind a bar."""
    return "\n".join(f"| {one_line(line)}" for line in text.split("\n"))


def one_line(text: str) -> str:
    """A text that stays on one line: line ends become blanks, what cannot be seen becomes visible."""
    line = text.removesuffix("\r").replace("\n", " ").translate(_BREAKS).translate(_HIDDEN)
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:LONGEST_LINE]} [… {len(line) - LONGEST_LINE} characters more]"


def quoted(text: str) -> str:
    """A name out of the evidence as a JSON string on one line."""
    return json.dumps(text, ensure_ascii=True)
