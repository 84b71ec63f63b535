"""Resolve the citations in a model's answer, and escape text that only looks like a citation."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from io import StringIO

from evalscribe.judging.citations import resolve_citations
from evalscribe.judging.subjects import Subject
from evalscribe.model.evidence import ROLES
from evalscribe.model.result import CitationTarget, ResolvedCitation
from evalscribe.reports.discussion.dossier import REPORT, AnswerCitation, ReportEvidence
from evalscribe.reports.inline import code
from evalscribe.text import cut, one_line, visible

_PLACES = "|".join(ROLES)
NAMED = rf"(?:(?:{_PLACES})[ \t]{{1,9}}\S|(?:failure|{REPORT})(?![A-Za-z0-9_-]))"
BARE = rf"(?:{_PLACES})\s*\Z"
"""Matches a document role, such as `output`, at the end of the text."""
NUMBERED = r"(?:(?:finding[ \t])?#?([0-9]{1,6})[,:]?[ \t]{1,9})"
START = re.compile(rf"\[[ \t]{{0,9}}{NUMBERED}?(?={NAMED})", re.IGNORECASE)
"""Matches the start of text that could be a citation. Only the complete text shows whether it is a citation."""
UNDECIDED = re.compile(r"[^\]\n]{0,60}\Z")
"""Matches the text after an opening bracket if too little of it has arrived to tell whether a citation begins."""
_OPENERS = "\\[［【〔〖〚❲⟦⟬⁅⦋⦍⦏﹝⌈⌊⎡⎣｢「"
OPENING = re.compile(f"[{_OPENERS}]")
"""Matches characters that are, or look like, the opening bracket of a citation."""
_BRACKET = re.compile(rf"[{_OPENERS}\]]")
_REACH = 61
"""Number of characters, including the opening bracket, that are enough to recognise a citation."""
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
"""For each Latin letter that citations use, the letters that look like it. Most look-alike letters are from other
scripts.
"""
_LATIN = str.maketrans({other: letter for letter, lookalikes in _ALIKE.items() for other in lookalikes})
_BLANK = re.compile(r"[^\S\n\t]")
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
"""Matches invisible letters and marks."""


def visible_text(piece: str) -> str:
    """Remove invisible characters. Invisible characters could hide a forged citation from the parser."""
    if piece.isascii() and piece.isprintable():
        return piece
    return _UNSEEN.sub("", _BLANK.sub(" ", visible(piece.replace("\r", ""))))


def is_forged(words: str, at: int = 0) -> bool:
    """Return whether the bracket at offset `at` imitates a citation with letters from other scripts."""
    begun = words[at : at + _REACH]
    if begun.isascii() or START.match(words, at):
        return False
    latin = unicodedata.normalize("NFKC", begun[1:]).lower().translate(_LATIN)
    folded = "[" + "".join(map(_digit, latin))
    match = START.match(folded)
    # Every displayed citation has the number of a finding or the word `report`.
    return match is not None and (match[1] is not None or folded.startswith(REPORT, match.end()))


def _digit(character: str) -> str:
    return str(unicodedata.decimal(character, character))


def escape_citations(words: str) -> str:
    """Escape brackets in quoted text. The text can then neither start a citation nor close the bracket around it."""
    depth = 0

    def harmless(bracket: re.Match[str]) -> str:
        nonlocal depth
        if bracket[0] not in "[]":
            return "(" if is_forged(words, bracket.start()) else bracket[0]
        if bracket[0] == "[":
            begins = START.match(words, bracket.start()) or is_forged(words, bracket.start())
            depth += not begins
            return "(" if begins else "["
        depth -= 1
        if depth < 0:
            depth = 0
            return ")"
        return "]"

    return _BRACKET.sub(harmless, words)


HELP = """\
- `[3 role path:3-9:<RANGE>text</RANGE>]` cites what lines 3 to 9 of a document of finding 3 say; role and path as
  `list_documents` names them; `[3 role path:3-9]` cites the lines without quoting them.
- `[3 failure:<RANGE>text</RANGE>]` cites what is recorded about the failure of finding 3 itself.
- `[report:<RANGE>text</RANGE>]` cites what the report says.
What stands between <RANGE> and </RANGE> is compared with that very document: copy it exactly and in whole words, leave
nothing out, and leave out line numbers and delimiters. One finding, one document and one place in each bracket."""
"""Instructions for the model on how to write citations."""
LONGEST = 6_000
"""Maximum number of characters of a citation. A longer citation is cut off and is not verified."""
LONGEST_QUOTE = 160
"""Maximum number of characters of a quotation that are displayed."""
_STOP = re.compile(r"<RANGE>|[\"“`\]\n]")
_QUOTE_ENDS = re.compile(r"[\"”`](?=\s{0,9}[\],;])")
_QUOTATION = re.compile(r"<RANGE>.*?</RANGE>|[\"“`].*[\"”`]", re.DOTALL)
_PLAIN_QUOTE = re.compile(r":? ?(?:[\"“]|`+ ?)(.*)(?:[\"”]| ?`+)\s*\Z", re.DOTALL)
_NEXT = re.compile(rf"[,;]\s*(?={NUMBERED}{NAMED})", re.IGNORECASE)
_NUMBER = re.compile(rf"\s*{NUMBERED}?(?={NAMED}|{BARE})", re.IGNORECASE)
_TAGS = re.compile(r":? ?<RANGE>|</RANGE>")
_BREAKS = re.compile(r"[\]\n]")
_NOTHING = Subject.of("nothing", [])


class AnswerResolver:
    """Resolves the citations in an answer while the answer is being received."""

    def __init__(self, dossier: ReportEvidence, at_hand: Callable[[], int | None]) -> None:
        """Store the arguments.

        `at_hand` returns the number of the finding to which a citation without a number refers.
        """
        self.citations: list[AnswerCitation] = []
        self._dossier = dossier
        self._at_hand = at_hand
        # A string that grows with each piece would take quadratic time.
        self._output = StringIO()
        self._pending = ""

    @property
    def text(self) -> str:
        """All text that has been returned for display."""
        return self._output.getvalue()

    def feed(self, piece: str) -> str:
        """Add the next part of the answer. Return the text that can now be displayed."""
        self._pending += visible_text(piece)
        return self._emit(self._settled(last=False))

    def end(self) -> str:
        """Return the rest of the answer's text for display. A citation that is still incomplete is not verified."""
        return self._emit(self._settled(last=True))

    def say(self, words: str) -> str:
        """Add text that evalscribe wrote, not the model, to the answer. Return this text."""
        return self._emit(words)

    def _emit(self, text: str) -> str:
        self._output.write(text)
        return text

    def _settled(self, *, last: bool) -> str:
        text = ""
        while opening := OPENING.search(self._pending):
            text, self._pending = text + self._pending[: opening.start()], self._pending[opening.start() :]
            if not last and UNDECIDED.match(self._pending, 1):
                return text
            if is_forged(self._pending):
                text, self._pending = f"{text}(", self._pending[1:]
                continue
            start = START.match(self._pending)
            end = self._end(start, last=last) if start else 1
            if end is None and not last and len(self._pending) <= LONGEST:
                return text
            end = end if end and end <= LONGEST else self._cut_off()
            bracket, self._pending = self._pending[:end], self._pending[end:]
            text += self._resolved(bracket, self._output.tell() + len(text)) if start else bracket
        text, self._pending = text + self._pending, ""
        return text

    def _end(self, start: re.Match[str], *, last: bool) -> int | None:
        """Return the offset at which the citation ends. Return None if its end has not arrived yet."""
        names, remaining = self._names(start), self._pending[start.end() :]
        # The name of an item can contain brackets, so the closing bracket is searched for after the end of the name.
        if not last and any(name.startswith(remaining) for name in names):
            return None
        at = start.end() + max((len(name) for name in names if remaining.startswith(name)), default=0)
        while stop := _STOP.search(self._pending, at):
            if stop[0] in "]\n":
                return stop.end() if stop[0] == "]" else stop.start()
            if stop[0] == "<RANGE>":
                close = self._pending.find("</RANGE>", stop.end())
                at = close + len("</RANGE>") if close >= 0 else len(self._pending)
            else:
                quote = _QUOTE_ENDS.search(self._pending, stop.end())
                at = quote.end() if quote else len(self._pending)
        return None

    def _cut_off(self) -> int:
        """Return the offset at which to cut off a citation that is not closed.

        The citation is cut off at the next closing bracket or line end. The text after that is displayed normally.
        """
        end = _BREAKS.search(self._pending)
        return end.start() if end else len(self._pending)

    def _names(self, start: re.Match[str]) -> list[str]:
        """Return the names of the items to which a citation can refer.

        Because names can contain brackets, the names must be known to find the bracket that closes the citation.
        """
        subject = self._subject(start[1], self._pending[start.end() :])
        return [item.mark for item in subject.items] if subject else []

    def _subject(self, number: str | None, body: str) -> Subject | None:
        n = self._number(number, body)
        about_report = body.startswith(REPORT)
        exists = about_report or (n is not None and n in self._dossier.topics)
        return self._dossier.subject(n) if exists else None

    def _number(self, number: str | None, body: str) -> int | None:
        if body.startswith(REPORT):
            return None
        return int(number) if number else self._at_hand()

    def _resolved(self, bracket: str, at: int) -> str:
        """Render each citation inside a bracket as a separate bracket.

        `at` is the offset of the original bracket in the answer.
        """
        inner = bracket.removeprefix("[")
        if not bracket.endswith("]"):
            return self._resolve_part(inner, at, closed=False)
        text = ""
        for part in _parts(inner.removesuffix("]")):
            text += " " if text else ""
            text += self._resolve_part(part, at + len(text), closed=True)
        return text

    def _resolve_part(self, part: str, at: int, *, closed: bool) -> str:
        begins = _NUMBER.match(part)
        number, body = (begins[1], part[begins.end() :]) if begins else (None, part)
        n, subject = self._number(number, body), self._subject(number, body) or _NOTHING
        bracket = _with_range(body)
        citations = resolve_citations(bracket, subject).citations
        # An ordinary bracket, such as `[log in]`, only begins like a citation.
        if not citations and number is None and "<RANGE>" not in bracket:
            return f"[{escape_citations(part)}{']' if closed else ''}"
        if not closed or not citations or _has_other_text(bracket, citations):
            return self._unverified(n, body, at, closed=closed)
        text = ""
        for citation in citations:
            text += " " if text else ""
            words = _citation_text(n, citation, subject, body)
            start = at + len(text)
            self._add(n, citation.model_copy(update={"start_idx": start, "end_idx": start + len(words)}))
            text += words
        return text

    def _unverified(self, n: int | None, body: str, at: int, *, closed: bool) -> str:
        words = (
            _unverified_text(n, body)
            if closed
            else f"[{_numbered(n)}{escape_citations(_TAGS.sub(' ', body))} (unverified)"
        )
        self._add(n, ResolvedCitation(start_idx=at, end_idx=at + len(words), quote=_quote(body), status="unverified"))
        return words

    def _add(self, n: int | None, citation: ResolvedCitation) -> None:
        self.citations.append(AnswerCitation(finding=n, citation=citation))


def _parts(inner: str) -> list[str]:
    """Split the text of a bracket into citations.

    The text is split at a comma or semicolon only if another citation follows.
    """
    masked = _QUOTATION.sub(lambda quote: "\0" * len(quote[0]), inner)
    parts, begin = [], 0
    for comma in _NEXT.finditer(masked):
        parts.append(inner[begin : comma.start()])
        begin = comma.end()
    return [*parts, inner[begin:]]


def _with_range(body: str) -> str:
    """Convert the text of a bracket to the grammar of `judging.citations`.

    In that grammar, `<RANGE>` and `</RANGE>` replace quotation marks.
    """
    plain = None if "<RANGE>" in body else _PLAIN_QUOTE.search(body)
    return f"[{body[: plain.start()]}:<RANGE>{plain[1]}</RANGE>]" if plain else f"[{body}]"


def _has_other_text(bracket: str, citations: Sequence[ResolvedCitation]) -> bool:
    """Return whether a bracket contains text besides its citations. Text besides the citations would not be
    verified.
    """
    for citation in reversed(citations):
        bracket = bracket[: citation.start_idx] + bracket[citation.end_idx :]
    return bool(bracket.strip(" ,;[]\n"))


def _citation_text(n: int | None, citation: ResolvedCitation, subject: Subject, body: str) -> str:
    target = citation.target
    if citation.status == "unverified" or target is None:
        return _unverified_text(n, body)
    quote = f" {_in_marks(_really(target, subject))}" if citation.quote is not None else ""
    moved = " (relocated)" if citation.status == "relocated" else ""
    return f"[{_place(n, target)}{quote}]{moved}"


def _numbered(n: int | None) -> str:
    return "" if n is None else f"{n} "


def _place(n: int | None, target: CitationTarget) -> str:
    lines = "" if target.first is None else f":{target.first}"
    lines += f"-{target.last}" if target.last is not None and target.last != target.first else ""
    return f"{_numbered(n)}{escape_citations(one_line(target.item))}{lines}"


def _really(target: CitationTarget, subject: Subject) -> str:
    """Return the cited text from the document itself, on one line."""
    return cut(one_line((subject.text_of(target) or "")[target.start_idx : target.end_idx]), LONGEST_QUOTE)


def _in_marks(words: str) -> str:
    """Put text in quotation marks. If the text itself contains quotation marks, put it in a code span instead."""
    return code(escape_citations(words)) if '"' in words else f'"{escape_citations(words)}"'


def _unverified_text(n: int | None, body: str) -> str:
    """Render an unverified citation in the words of the model, and mark it as unverified."""
    words = escape_citations(cut(one_line(_TAGS.sub(" ", body)), LONGEST_QUOTE))
    return f"[{_numbered(n)}{words}] (unverified)"


def _quote(body: str) -> str | None:
    quoted = re.search(r"<RANGE>(.*?)(?:</RANGE>|\Z)", body, re.DOTALL) or _PLAIN_QUOTE.search(body)
    return quoted[1] if quoted else None
