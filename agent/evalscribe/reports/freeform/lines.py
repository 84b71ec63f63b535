"""Parse single lines, and words in them, from reports that people wrote.

A line consists of `key: value` fields, or it begins with the names of evals, labels and steps. The module has all known
spellings of labels, kinds of cause and field names.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from evalscribe.model.analysis import FindingSummary
from evalscribe.model.finding import CLASSIFICATIONS, NOT_THE_MODEL, CauseKind, Classification
from evalscribe.reports.freeform.blocks import Line, StyledSpan, marked, plain

KINDS: dict[str, CauseKind] = {
    "infrastructure": "infrastructure",
    "infra": "infrastructure",
    "harness": "harness",
    "grader": "grader",
    "lint": "lint",
    "task": "task",
    "model": "model",
    "user": "user",
}
STEPS = ("filesystem", "install", "deploy", "build", "tsc", "types", "typecheck", "eslint", "lint", "test", "tests")
"""Words that name a step of the grading, wherever they stand in a line."""
LABEL = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    + "|".join(label.replace("_", r"[\s_-]") for label in CLASSIFICATIONS)
    + r")S?(?![A-Za-z0-9_])",
    re.IGNORECASE,
)
FOREIGN_LABEL = re.compile(r"(?<![A-Za-z0-9_])[A-Z]{3,}(?:_[A-Z]+)+(?![A-Za-z0-9_])")
"""Matches a label in capitals with an underscore, such as `HARNESS_FAILURE`. The pattern is used to find labels other
than evalscribe's four.
"""
# The words must be in the same clause as the label that follows, as in `not a MODEL_FAULT`.
NOT_IN_FORCE = re.compile(
    r"\b(not|\w+n't|never|no longer|first|initially|originally|previously|formerly|earlier|was|were|"
    r"instead of|rather than|changed from|reclassified from|thought|nicht|kein|keine|zuerst|vorher|bisher)\b[^.;]*$",
    re.IGNORECASE,
)
NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)*[A-Za-z0-9][\w.-]*(?:#\d+)?")
FILE = re.compile(r"\.[A-Za-z]{1,5}$")
SUPERSEDED = re.compile(f"(?:{LABEL.pattern})[*`~]*\\s*(?:→|->|=>)\\s*(?=[*`]*{LABEL.pattern})", re.IGNORECASE)
"""Matches a label that has been replaced by another, as in `MODEL_FAULT → KNOWN_GAP`. The replaced label stands before
the arrow, and the label in force stands after the arrow.
"""
NOTHING = re.compile(r"^\W*(none|nothing|no actions?|n/a)\b", re.IGNORECASE)
"""Matches words such as `none` or `n/a`, with which people state that an entry is empty."""
FRACTION = re.compile(r"\d+(?:[/.,]\d+)?\s*%?")


_MAPPED: tuple[tuple[frozenset[str], Classification, CauseKind], ...] = (
    (frozenset(("harness", "runner")), "OVERLY_STRICT", "harness"),
    (frozenset(("test", "tests", "grader", "eval")), "OVERLY_STRICT", "grader"),
    (frozenset(("model", "genuine")), "MODEL_FAULT", "model"),
    (frozenset(("task", "prompt")), "AMBIGUOUS_TASK", "task"),
)
"""Used for labels other than evalscribe's four. Maps words in such a label to one of the four labels and a kind of
cause. The first entry that matches is used.
"""


class WrittenLabel(NamedTuple):
    """A label as written in a report.

    `classification` is None if the label cannot be mapped to one of evalscribe's four labels.
    """

    classification: Classification | None
    kind: CauseKind | None
    foreign: str | None = None
    """The label as written, if it is not one of evalscribe's four labels; otherwise None."""


def label_in(text: str) -> WrittenLabel | None:
    """Return the label that is in force according to a short text. Return None if the text states no label."""
    text, last_end = SUPERSEDED.sub("", text), 0
    for match in LABEL.finditer(text):
        before, last_end = text[last_end : match.start()], match.end()
        if not NOT_IN_FORCE.search(before):
            return WrittenLabel(_classification(match.group()), kind_in(text[match.end() :]))
    foreign = FOREIGN_LABEL.search(text)
    if foreign is None or LABEL.search(text):
        return None
    return _mapped(foreign.group(), kind_in(text[foreign.end() :]))


def _mapped(foreign: str, written_kind: CauseKind | None) -> WrittenLabel:
    """Map a label that is not one of evalscribe's four labels to one of them, if possible.

    `written_kind` is the kind of cause that is written beside the label.
    """
    words = set(foreign.lower().split("_"))
    classification, kind = next(((label, kind) for keywords, label, kind in _MAPPED if words & keywords), (None, None))
    return WrittenLabel(classification, written_kind or kind or _kind_of_words(foreign), foreign)


def is_label(text: str) -> bool:
    """Return whether a text is only a label, possibly with remarks in parentheses."""
    bare = re.sub(r"^\W+|\W+$", "", re.sub(r"\([^()]*\)", "", text))
    return bool(LABEL.fullmatch(bare) or FOREIGN_LABEL.fullmatch(bare))


def kind_in(after: str) -> CauseKind | None:
    """Return the kind of cause that is written in parentheses directly after a label.

    `after` is the text after the label.
    """
    remark = re.match(r"[\s*`]*[(\[]([^()\[\]]{1,60})[)\]]", after)
    return _kind_of_words(remark.group(1)) if remark else None


def blame_in(text: str) -> WrittenLabel | None:
    """Return the kind of cause that a `Classification` field states instead of a label.

    Returns None if the field blames the model, or if it names no kind of cause.
    """
    kind = _kind_of_words(text) if len(text) <= 80 else None
    return WrittenLabel(None, kind) if kind in NOT_THE_MODEL else None


def _classification(text: str) -> Classification:
    spelled = re.sub(r"[\s-]", "_", text.upper())
    return next(label for label in CLASSIFICATIONS if spelled in (label, label + "S"))


def _kind_of_words(text: str) -> CauseKind | None:
    """Return the kind of cause that a remark names.

    If the remark consists of several words, only the kinds in `NOT_THE_MODEL` are recognised.
    """
    words = re.split(r"[\s_,/-]+", text.lower())
    kinds = [KINDS[word] for word in words if word in KINDS]
    if not set(words) <= {"simulated", "user"}:
        kinds = [kind for kind in kinds if kind != "user"]  # most remarks with `user` mean other users
    broken = next((kind for kind in kinds if kind in NOT_THE_MODEL), None)
    return broken or (kinds[0] if len(words) == 1 and kinds else None)


def is_name(text: str) -> bool:
    """Return whether a text can be the name of an eval. A name is one word, with or without the category."""
    return bool(
        len(text) <= 200
        and NAME.fullmatch(text)
        and not FRACTION.fullmatch(text)
        and not LABEL.fullmatch(text)
        and not FOREIGN_LABEL.fullmatch(text)
        # Lists also name files, such as `src/index.ts`.
        and not FILE.search(text)
    )


def is_marked_name(text: str) -> bool:
    """Return whether a text looks like the name of an eval even within a sentence.

    The text must have a slash, a digit, `_` or `-`.
    """
    return is_name(text) and bool(re.search(r"[/\d_]|\w-\w", text)) and bool(re.search(r"[A-Za-z]", text))


def bare_name(name: str) -> str:
    return name.rpartition("/")[2]


def key_of(text: str) -> str:
    """Return the key of a field or column without decoration: `**Failed step (1):**` becomes `failed step`."""
    return re.sub(r"[^\w\s]|[\d_]", " ", re.sub(r"\([^()]*\)", "", text)).strip().lower().replace("  ", " ")


TOKEN = re.compile(r"#\d+\b|[A-Za-z0-9][\w.-]*(?:/[\w.-]+)*(?:#\d+)?")


class MentionedEvals:
    """Finds the evals that a text mentions.

    A text can mention an eval of the report by path, by bare name, or by number (`#11`).
    """

    def __init__(self, findings: Sequence[FindingSummary]) -> None:
        self.paths = {finding.eval for finding in findings}
        self.numbered: dict[str, list[str]] = {}
        for finding in findings:
            self.numbered.setdefault(f"#{finding.n}", []).append(finding.eval)
        times = Counter(bare_name(path) for path in self.paths)
        # Without a digit, `_` or a hyphen, a bare name could be an ordinary word.
        self.bare = {name: path for path in self.paths if times[name := bare_name(path)] == 1 and is_marked_name(name)}

    def in_text(self, text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for token in TOKEN.findall(text) for path in self._evals(token)))

    def _evals(self, token: str) -> Sequence[str]:
        """Return the evals to which a word refers by path, bare name or number, or by the path of an eval's file."""
        token = token.rstrip(".")
        if token in self.paths:
            return [token]
        if token in self.numbered:
            return self.numbered[token]
        parts = token.split("/")
        ends = ("/".join(parts[n : n + 2]) for n in range(len(parts) - 1))
        matches = [path for path in ends if path in self.paths]
        return matches or ([self.bare[token]] if token in self.bare else [])


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
    """Key of the field as the author of the report wrote it."""
    value: Line

    @property
    def text(self) -> str:
        return plain(self.value).strip(" |·•;")

    @property
    def marked_text(self) -> str:
        return marked(self.value).strip(" |·•")

    def means(self, header: bool) -> Key:
        """Return what the key means.

        If `header` is True, the key is looked up among the keys of report headers, otherwise among the keys of
        findings.
        """
        key = key_of(self.key)
        meaning = (_IN_HEADERS if header else _IN_FINDINGS).get(key)
        if meaning is not None:
            return meaning
        # A value that is only a label shows what the key means, unless the key is about an earlier label.
        if not header and is_label(self.text.split("\n")[0]) and not PAST.search(key):
            return "classification"
        return "other"


def parse_fields(line: Line) -> tuple[Field, ...]:
    """Return the `key: value` fields of a line. Return an empty tuple if the line is an ordinary sentence."""
    marks = list(_marks(line))
    if not marks or plain(line[: marks[0].span])[:1].isalnum() or plain([marks[0].before])[:1].isalnum():
        return ()
    ends = [*marks[1:], None]
    return tuple(Field(mark.key, _value_spans(line, mark, end)) for mark, end in zip(marks, ends, strict=True))


class _Mark(NamedTuple):
    """Position of a field's key in a line."""

    key: str
    span: int
    before: StyledSpan
    """Text in the key's span that stands before the key."""
    start: int
    after: int
    """Offset in the key's span at which the value begins. If the value begins in the next span, as after a key in bold,
    the offset is the length of the key's span.
    """


def _marks(line: Line) -> Iterator[_Mark]:
    for number, span in enumerate(line):
        following = line[number + 1].text if number + 1 < len(line) else ""
        if span.style == "strong" and (span.text.rstrip().endswith((":", "：")) or _is_key(span.text, following)):
            yield _Mark(span.text.rstrip(" :："), number, StyledSpan(""), 0, len(span.text))
        elif span.style == "strong" and (inside := PLAIN_KEY.match(span.text)):
            yield _Mark(inside.group(1), number, StyledSpan(""), 0, inside.end())
        elif span.style == "plain":
            for match in PLAIN_KEY.finditer(span.text):
                at_start = match.start() == 0
                if _is_field_key(match.group(1)) and (number == 0 or not at_start):
                    yield _Mark(
                        match.group(1), number, StyledSpan(span.text[: match.start()]), match.start(), match.end()
                    )


def _is_key(text: str, following: str) -> bool:
    return bool(COLON.match(following)) or (_is_field_key(text) and following[:1].isspace())


def _is_field_key(text: str) -> bool:
    """Return whether a text is the key of a field."""
    key = key_of(text)
    # A text with a digit, such as `Failure 3: …`, begins a finding.
    return not re.search(r"\d", text) and (key in _IN_FINDINGS or key in _IN_HEADERS)


def _value_spans(line: Line, mark: _Mark, end: _Mark | None) -> Line:
    """Return the spans of a field's value. The value ends before the next key."""
    value: list[StyledSpan] = []
    last = end.span if end else len(line) - 1
    for number in range(mark.span, last + 1):
        span = line[number]
        stop = end.start if end and number == end.span else len(span.text)
        start = mark.after if number == mark.span else 0
        if text := span.text[start:stop]:
            value.append(StyledSpan(text, span.style))
    if value and value[0].style == "plain" and mark.after == len(line[mark.span].text):
        value[0] = StyledSpan(COLON.sub("", value[0].text, count=1).lstrip(), "plain")
    return tuple(value)


SEPARATOR = re.compile(r"\s+-{1,3}>?\s+|\s*[—–→⇒|·•;,]\s*|:\s+|:$")
ORDINAL = re.compile(r"^(?:[^\w`(\[/@]+|[(\[]?#?\d{1,5}[.):\]]+(?=\s|$)|#\d+(?=\s|$))\s*")
LEAD_WORD = re.compile(
    r"^(?:eval|evaluation|failure|failed|case|finding|issue|test|task)\s*(?:#?\d+)?\s*:?$", re.IGNORECASE
)
REMARK = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]")
JOINER = re.compile(r"\s+(?:and|und|&|\+)\s+|\s*,\s*")
# A heading of thousands of separators would otherwise take long to parse.
MAX_LEAD = 400


@dataclass(frozen=True, slots=True)
class NamedEval:
    """An eval as a report names it.

    `remark` is the text in parentheses after the eval's name.
    """

    name: str
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class LineStart:
    evals: tuple[NamedEval, ...] = ()
    label: WrittenLabel | None = None
    step: str | None = None
    segments: tuple[str, ...] = ()
    """Texts that follow the evals in the line, such as a rate or a reason."""
    unsure: bool = False
    """True if the eval's name is a plain word. A plain word counts as a name only if a label or a number stands beside
    it.
    """


@dataclass(slots=True)
class _Segment:
    text: str
    remarks: tuple[str, ...]
    styled: bool


def parse_line_start(line: Line, whole_line: bool) -> LineStart:
    """Parse the evals, label and step at the beginning of a line.

    If `whole_line` is True, the line is parsed to its end. Headings are parsed to the end, because the label of a
    heading can be there.
    """
    segments = _Segments(whole_line)
    for segment in _segments(line):
        segments.take(segment)
        if segments.texts and not whole_line:
            break
    if segments.is_plain_word and (segments.label or ORDINAL.match(plain(line))):
        word, *rest = segments.texts
        return LineStart(
            (NamedEval(word, segments.remark),),
            segments.label,
            next(iter(rest), None),
            tuple(rest[1:]),
            unsure=True,
        )
    label = segments.label or _closing_label(line, bool(segments.evals))
    return LineStart(tuple(segments.evals), label, segments.step, tuple(segments.texts))


@dataclass(slots=True)
class _Segments:
    """Collects evals, label and step from the segments of a line, one segment at a time."""

    whole_line: bool
    evals: list[NamedEval] = field(default_factory=list)
    label: WrittenLabel | None = None
    step: str | None = None
    remark: str | None = None
    """Text in parentheses after the first element of `texts`."""
    texts: list[str] = field(default_factory=list)

    def take(self, segment: _Segment) -> None:
        words, label = _split_label(segment)
        names = () if self.texts else _names(words, segment)
        if label and (names or (not words and (self.whole_line or not self.texts))):
            self.label = self.label or label
        if names:
            self.evals.extend(names)
        elif self.evals and not self.texts and not words and not label:
            self._add_remark(segment)
        elif self.evals and not self.texts and self.step is None and _is_step(words, self.whole_line):
            self.step = words
        elif words and not LEAD_WORD.match(words):
            self.remark = self.remark if self.texts else next(iter(segment.remarks), None)
            self.texts.append(words)

    def _add_remark(self, segment: _Segment) -> None:
        """Add a remark to the last eval.

        A remark after a name in bold, as in `**003-crons** (basics)`, belongs to that name.
        """
        last = self.evals[-1]
        self.evals[-1] = NamedEval(last.name, last.remark or next(iter(segment.remarks), None))

    @property
    def is_plain_word(self) -> bool:
        """True if a heading begins with a lower-case word without `/`, `_`, `-` or digits.

        Such a word can be an eval's name.
        """
        return bool(
            self.whole_line and not self.evals and self.texts and is_name(self.texts[0]) and self.texts[0].islower()
        )


def _is_step(words: str, whole_line: bool) -> bool:
    """Return whether the words name a step.

    In a heading, any one to three words are taken as a step. Elsewhere, only the words in `STEPS` are taken as a step.
    """
    return words.lower() in STEPS or (whole_line and 0 < len(words.split()) <= 3)


def _segments(line: Line) -> Iterator[_Segment]:
    room = MAX_LEAD
    for number, span in enumerate(line):
        text = _undecorated(span.text) if number == 0 else span.text
        if span.style == "code":
            yield _Segment(text.strip(), (), True)
        else:
            yield from _plain_segments(SUPERSEDED.sub("", text[:room]), span.style == "strong")
        room -= len(text)
        if room <= 0:
            return


def _undecorated(text: str) -> str:
    """Remove numbers and symbols, such as `❌ 3)` or `#4`, from the beginning of a text."""
    before = None
    while before != text:
        before, text = text, ORDINAL.sub("", text, count=1)
    return text


def _plain_segments(text: str, strong: bool) -> Iterator[_Segment]:
    hidden, hidden_remarks = _hide_remarks(text)
    for part in SEPARATOR.split(hidden):
        remarks = tuple(hidden_remarks[int(n)] for n in re.findall(r"\x00(\d+)\x00", part))
        bare = _undecorated(re.sub(r"\x00\d+\x00", " ", part).strip())
        if bare or remarks:
            yield _Segment(bare, remarks, strong)


def _hide_remarks(text: str) -> tuple[str, list[str]]:
    """Replace texts in parentheses with placeholders, and return the new text and the replaced texts.

    The line is later split at separators. A separator inside parentheses must not split it.
    """
    remarks: list[str] = []

    def hide(match: re.Match[str]) -> str:
        remarks.append(match.group(1) or match.group(2) or "")
        return f"\x00{len(remarks) - 1}\x00"

    # A NUL in the text could imitate a placeholder.
    return REMARK.sub(hide, text.replace("\x00", "")), remarks


def _split_label(segment: _Segment) -> tuple[str, WrittenLabel | None]:
    """Return the words of a segment without its label, and the label itself. The label can be in parentheses."""
    remarks = " ".join(f"({remark})" for remark in segment.remarks)
    if is_label(segment.text):
        return "", label_in(f"{segment.text} {remarks}")
    for remark in segment.remarks:
        if is_label(remark):
            return segment.text, label_in(remark)
    match = LABEL.search(segment.text)
    # The product is 0 if the label stands at the beginning or at the end.
    if match and match.start() * (len(segment.text) - match.end()) == 0:
        words = (segment.text[: match.start()] + segment.text[match.end() :]).strip(" :*")
        if all(is_marked_name(word) for word in words.split()):
            return words, label_in(f"{match.group()} {remarks}")
    return segment.text, None


def _names(words: str, segment: _Segment) -> tuple[NamedEval, ...]:
    candidates = [word for part in JOINER.split(words) for word in part.split()]
    fits = is_name if segment.styled and len(candidates) == 1 and words.islower() else is_marked_name
    if not candidates or not all(fits(word) for word in candidates):
        return ()
    remark = next(iter(segment.remarks), None) if len(candidates) == 1 else None
    return tuple(NamedEval(word, remark) for word in candidates)


def _closing_label(line: Iterable[StyledSpan], has_evals: bool) -> WrittenLabel | None:
    """Return the label at the end of the line, after a dash or in parentheses."""
    text = plain(line)
    if not has_evals or len(LABEL.findall(text)) != 1:
        return None
    end = re.search(r"(?:\s[—–-]{1,2}\s+|\s[(\[])([^—–()\[\]]{1,80}(?:\([^()]*\))?)[)\]]?\.?$", text)
    return label_in(end.group(1)) if end and is_label(end.group(1)) else None
