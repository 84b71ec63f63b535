"""`Key: value` lines in the words of people: `**Failed step:** tests`, `Verdict — KNOWN_GAP`, `- Error: …`."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from evalscribe.recall.blocks import Line, Span, marked, plain
from evalscribe.recall.words import is_label, key_of

Key = Literal[
    "eval", "category", "classification", "step", "error", "reasoning", "output", "expected", "action",
    "run", "model", "provider", "experiment", "date", "rate", "passed", "failed", "total", "status", "url", "other",
]  # fmt: skip
_SPELLED: dict[Key, str] = {
    "eval": "eval|evals|affected evals|affected|failed evals|eval name|"
    "eval path|evaluation|test case|failed eval|failing eval|name",
    "category": "category|eval category|group|kategorie",
    "classification": "classification|final classification|verdict|final verdict|label|class|diagnosis|judgement|"
    "judgment|classified as|reclassified as|reclassified to|fault|klassifikation|klassifizierung|einstufung|urteil",
    "step": "failed step|step|failing step|failure step|failed at|failed at step|step failed|failed in|step type|"
    "schritt",
    "error": "error|errors|error message|exact error|error summary|failure|failure reason|symptom|fehler",
    "reasoning": "reasoning|reason|reasons|why|rationale|explanation|analysis|one line reasoning|root cause|"
    "root cause identified|cause|description|details|begründung|grund",
    "output": "model output|model snippet|model output snippet|model code|model code snippet|model|model wrote|actual|"
    "got|output|wrong|before|model s code|model output wrong",
    "expected": "expected|expected snippet|expected code|expected code snippet|expected output|reference|"
    "reference answer|answer|correct|after",
    "action": "action taken|actions taken|action|fix applied|fixed by|resolution|maßnahme",
    "run": "run id|run ids|run|run id prefix",
    "model": "model|model id|model name|modell",
    "provider": "provider|model provider|anbieter",
    "experiment": "experiment|experiment name|experiments|variant",
    "date": "date|run date|report date|analysed|analyzed|analysis date|datum",
    "rate": "pass rate|pass rates|recorded pass rate|recorded pass rates|passrate|score|result|results|passed evals|"
    "pass",
    "passed": "passed|evals passed|passed count",
    "failed": "failed|failed evals|failures|failed count|evals failed",
    "total": "total|total evals|evals",
    "status": "status|run status",
    "url": "url|run url|link",
}
HEADER_KEYS: frozenset[Key] = frozenset(
    ("run", "model", "provider", "experiment", "date", "rate", "passed", "failed", "total", "status", "url")
)
_IN_HEADERS = {word: key for key, words in _SPELLED.items() if key in HEADER_KEYS for word in words.split("|")}
_IN_FINDINGS = {word: key for key, words in _SPELLED.items() if key not in HEADER_KEYS for word in words.split("|")}
PAST = re.compile(r"\b(previous|prior|earlier|before|old|original|initial|first|last|was|judge|expected|suggested)\b")
COLON = re.compile(r"^\s*[:：=]\s*|^\s+[—–-]{1,2}\s+")
PLAIN_KEY = re.compile(r"(?:^|[|·•;]\s*)([^\W\d_][\w'’ -]{2,30}?(?:\s*\([^()]{1,40}\))?)\s*[:：](?=\s|$)\s*")


class Field(NamedTuple):
    key: str
    """As written."""
    value: Line

    @property
    def text(self) -> str:
        return plain(self.value).strip(" |·•;")

    @property
    def said(self) -> str:
        return marked(self.value).strip(" |·•")

    def means(self, header: bool) -> Key:
        """What the key stands for, above the findings (`header`) or in one of them."""
        key = key_of(self.key)
        meaning = (_IN_HEADERS if header else _IN_FINDINGS).get(key)
        if meaning is not None:
            return meaning
        if not header and is_label(self.text.split("\n")[0]) and not PAST.search(key):
            return "classification"
        return "other"


def fields(line: Line) -> tuple[Field, ...]:
    """The fields of a line; empty for running text."""
    marks = list(_marks(line))
    if not marks or plain(line[: marks[0].span])[:1].isalnum() or plain([marks[0].before])[:1].isalnum():
        return ()
    ends = [*marks[1:], None]
    return tuple(Field(mark.key, _between(line, mark, end)) for mark, end in zip(marks, ends, strict=True))


class _Mark(NamedTuple):
    """Where in a line a key stands."""

    key: str
    span: int
    before: Span
    """What stands before the key in the span that holds it."""
    start: int
    after: int
    """Where in the span its value begins; past its end for a key in bold."""


def _marks(line: Line) -> Iterator[_Mark]:
    for number, span in enumerate(line):
        following = line[number + 1].text if number + 1 < len(line) else ""
        if span.style == "strong" and (span.text.rstrip().endswith((":", "：")) or _is_key(span.text, following)):
            yield _Mark(span.text.rstrip(" :："), number, Span(""), 0, len(span.text))
        elif span.style == "strong" and (inside := PLAIN_KEY.match(span.text)):
            yield _Mark(inside.group(1), number, Span(""), 0, inside.end())
        elif span.style == "plain":
            for match in PLAIN_KEY.finditer(span.text):
                at_start = match.start() == 0
                if _known(match.group(1)) and (number == 0 or not at_start):
                    yield _Mark(match.group(1), number, Span(span.text[: match.start()]), match.start(), match.end())


def _is_key(text: str, following: str) -> bool:
    return bool(COLON.match(following)) or (_known(text) and following[:1].isspace())


def _known(text: str) -> bool:
    """A numbered key counts things (`Failure 3: …`), it names no field."""
    key = key_of(text)
    return not re.search(r"\d", text) and (key in _IN_FINDINGS or key in _IN_HEADERS)


def _between(line: Line, mark: _Mark, end: _Mark | None) -> Line:
    """The spans of a value: from behind its key to the next one."""
    value: list[Span] = []
    last = end.span if end else len(line) - 1
    for number in range(mark.span, last + 1):
        span = line[number]
        stop = end.start if end and number == end.span else len(span.text)
        start = mark.after if number == mark.span else 0
        if text := span.text[start:stop]:
            value.append(Span(text, span.style))
    if value and value[0].style == "plain" and mark.after == len(line[mark.span].text):
        value[0] = Span(COLON.sub("", value[0].text, count=1).lstrip(), "plain")
    return tuple(value)
