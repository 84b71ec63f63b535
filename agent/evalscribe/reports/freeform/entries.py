"""Collect a draft finding for each failure that a free-form report describes.

A failure can be described by a heading, a field, a list item or a row of a table.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from evalscribe.reports.freeform.blocks import FreeformBlock, Line, marked, plain
from evalscribe.reports.freeform.lines import (
    JOINER,
    NOTHING,
    PAST,
    Field,
    Key,
    LineStart,
    NamedEval,
    WrittenLabel,
    blame_in,
    is_label,
    is_marked_name,
    is_name,
    key_of,
    label_in,
    parse_fields,
    parse_line_start,
)
from evalscribe.reports.freeform.sections import SectionContext, speaks_of_all

Origin = Literal["heading", "field", "table", "list"]
NUMBER = re.compile(r"^\W{0,5}(\d{1,5})[.):\]]\s")
_OUTPUT_WORDS = ("model", "output", "actual", "wrong", "bad", "got")
_EXPECTED_WORDS = ("expected", "reference", "correct", "good", "right")
_SIDE = re.compile(
    rf"^\s*(?://|#|--|/\*|<!--|;)+\s*(?:the\s+)?({'|'.join(_OUTPUT_WORDS + _EXPECTED_WORDS)})\b", re.IGNORECASE
)
"""Matches a comment in a code block that says where the lines below it come from: the model's output or the reference
answer.
"""


@dataclass(slots=True)
class DraftFinding:
    origin: Origin
    evals: tuple[NamedEval, ...] = ()
    label: WrittenLabel | None = None
    """Label that stands beside the eval's name in the heading, table row or list item."""
    inherited: WrittenLabel | None = None
    """Label of the section or list that contains the finding. The label applies if the finding states none itself."""
    failing: bool = False
    """True if the finding is in a section that lists failures."""
    level: int = 0
    depth: int = 0
    number: int | None = None
    unsure: bool = False
    """True if the eval's name is a plain word. The draft is then counted as a failure only if it states a label itself.
    """
    category: str | None = None
    values: dict[Key, list[str]] = field(default_factory=dict)
    fences: list[str] = field(default_factory=list)
    first_key: str = ""
    """Key of the draft's first field, if the draft began with a field. Empty if it began with a heading, list item or
    table row.
    """

    @property
    def for_all(self) -> bool:
        return not self.evals

    @property
    def may_be_category(self) -> bool:
        """True if the only name in the draft could be the name of a category instead of an eval.

        A name can be a category if it is not a path, and if the draft has neither a label nor a number.
        """
        return len(self.evals) == 1 and "/" not in self.evals[0].name and self.explicit is None and self.number is None

    @property
    def is_only_name(self) -> bool:
        """True if the draft so far consists only of a name that could be a category, without a remark, fields or code
        blocks.
        """
        return self.may_be_category and self.evals[0].remark is None and not self.values and not self.fences

    @property
    def stated(self) -> WrittenLabel | None:
        """The label that applies to the finding.

        The label is taken from a field, otherwise from the text that names the eval, otherwise from the section or list
        that contains the finding.
        """
        return self.explicit or self.inherited

    @property
    def explicit(self) -> WrittenLabel | None:
        labels = [label for text in self.values.get("classification", ()) if (label := _label_of_field(text))]
        return labels[-1] if labels else self.label

    @property
    def step(self) -> str | None:
        text = next(iter(self.values.get("step", ())), "")
        word = re.sub(r"\(.*", "", text.replace("`", "")).strip(" .:*").lower()
        return None if word in ("", "none", "null", "n/a", "na", "-", "–", "—", "unknown") or len(word) > 40 else word

    def text(self, key: Key) -> str | None:
        return "\n".join(line for line in self.values.get(key, ()) if line).strip() or None

    def add(self, key: Key, text: str) -> None:
        self.values.setdefault(key, []).append(text)

    def snippet(self, key: Literal["output", "expected"]) -> str | None:
        """Return the text of the field `output` or `expected`.

        If the finding does not have the field, return the part of a code block that a comment marks as the output or
        the expected output.
        """
        text = self.text(key)
        if text and not NOTHING.match(text):
            return text
        return next((part for fence in self.fences if (part := _sides(fence).get(key))), None)


def start_drafts(origin: Origin, line: Line, start: LineStart) -> DraftFinding:
    number = NUMBER.match(plain(line))
    return DraftFinding(
        origin, start.evals, start.label, number=int(number.group(1)) if number else None, unsure=start.unsure
    )


def _label_of_field(text: str) -> WrittenLabel | None:
    """Return the label that the first line of a `Classification` field states.

    If the line begins with a word in capitals, the word counts as a label, even if it is not one of evalscribe's four.
    """
    first = text.split("\n")[0]
    word = re.match(r"[^\w]*([A-Z][A-Z]{3,})\b", first)
    # Other labels are recognised by their underscore, which a single word such as `INFRASTRUCTURE` lacks.
    foreign = label_in(f"{word.group(1)}_LABEL{first[word.end() :]}") if word else None
    if foreign and foreign.foreign and word:
        foreign = foreign._replace(foreign=word.group(1))
    return label_in(first) or foreign or blame_in(first)


def _sides(fence: str) -> dict[str, str]:
    side, sides = "", dict[str, list[str]]()
    for line in fence.split("\n"):
        if match := _SIDE.match(line):
            side = "expected" if match.group(1).lower() in _EXPECTED_WORDS else "output"
        elif side:
            sides.setdefault(side, []).append(line)
    return {side: "\n".join(lines).strip("\n") for side, lines in sides.items()}


Rows = Sequence[Sequence[Line]]
NO_VALUE = ("", "-", "–", "—", "n/a", "none", "✅", "ok")
PASSED = re.compile(r"\W*(pass(es|ed|ing)?|ok|fixed|resolved|success)\b", re.IGNORECASE)
_EVALS = re.compile(r"^(failed |failing )?(evals?|evaluations?|tests?|tasks?|cases?|names?)( (name|path|id))?s?$")


def rows_of(rows: Rows) -> Iterator[DraftFinding]:
    """Yield a draft finding for each table row that names failed evals.

    The table must have a column of evals and a column of labels, steps or errors; otherwise, nothing is yielded.
    """
    columns = _columns(rows)
    if "eval" not in columns or not columns.keys() & {"classification", "step", "error"}:
        return
    for row in rows[1:]:
        cells = {key: row[n] for key, n in columns.items() if n < len(row)}
        draft = _row(cells)
        if draft is not None:
            yield draft


def _columns(rows: Rows) -> dict[Key, int]:
    """Map the meaning of each column to the column's index. The meaning is inferred from the header and the cells."""
    header = [key_of(plain(cell)) for cell in rows[0]] if rows else []
    columns: dict[Key, int] = {}
    for number, title in enumerate(header):
        key = _meaning(title, plain(rows[0][number]), _column(rows, number))
        if key is not None:
            columns.setdefault(key, number)
    unused = [n for n in range(len(header)) if n not in columns.values() and _names_evals(rows, n)]
    if unused:
        columns.setdefault("eval", unused[0])
    return columns


def _column(rows: Rows, number: int) -> list[str]:
    # The first rows show what a column has. A table can have 10,000 rows.
    texts = (plain(row[number]) for row in rows[1:200] if number < len(row))
    return [text for text in texts if text.lower() not in NO_VALUE]


def _meaning(title: str, header: str, cells: Sequence[str]) -> Key | None:
    labelled = sum(is_label(cell) for cell in cells) * 2 >= len(cells) > 0
    if labelled:
        # A column such as `Previous label` has labels that are not in force.
        return None if PAST.search(title) else "classification"
    if _EVALS.match(title):
        return "eval"
    if re.search(r"\breason|\bwhy\b|\bnotes?\b|\bdescription\b|\bone line\b|\bcomment", title):
        return "reasoning"
    key = Field(header, ()).means(header=False)
    return key if key in ("step", "error", "category", "action", "classification", "reasoning") else None


def _names_evals(rows: Rows, number: int) -> bool:
    cells = _column(rows, number)
    return sum(_is_path(cell) for cell in cells) * 2 > len(cells) > 0


def _is_path(cell: str) -> bool:
    return is_marked_name(cell) and bool(re.match(r"\d", cell) or "/" in cell)


def _row(cells: dict[Key, Line]) -> DraftFinding | None:
    evals = _evals(cells["eval"])
    label_text = plain(cells.get("classification", ()))
    if (
        not evals
        or PASSED.match(label_text)
        or ("classification" in cells and label_text.lower() in NO_VALUE and not _value(cells, "step"))
    ):
        return None
    label = label_in(label_text)
    # A plain word is only the name of an eval if a label stands beside it.
    if not all(is_marked_name(item.name) for item in evals) and label is None:
        return None
    category = _value(cells, "category")
    draft = DraftFinding("table", evals, label, category=category if category and is_name(category) else None)
    for key in ("step", "error", "reasoning", "action"):
        if key in cells and _value(cells, key):
            draft.add(key, marked(cells[key]))
    return draft


def _evals(cell: Line) -> tuple[NamedEval, ...]:
    """Return the evals that a cell in a column of evals names.

    A single word in such a column always counts as a name.
    """
    evals = parse_line_start(cell, whole_line=True).evals
    if evals:
        return evals
    words = [word.strip() for word in JOINER.split(plain(cell))]
    return tuple(NamedEval(word) for word in words) if words and all(is_name(word) for word in words) else ()


def _value(cells: dict[Key, Line], key: Key) -> str | None:
    text = plain(cells.get(key, ()))
    return None if text.lower() in NO_VALUE else text


FAILURE_TOPICS = ("none", "failures")
"""Topics of sections that can describe failures of the report's run."""


@dataclass(frozen=True, slots=True)
class _OpenField:
    key: Key
    depth: int
    block: int
    empty: bool


@dataclass(slots=True)
class Entries:
    """Collects draft findings from blocks, which are read one by one.

    The finding of each failure is added to `drafts`. If the report states something about all failures, such as their
    common label, the statement is in `everyone`.
    """

    drafts: list[DraftFinding] = field(default_factory=list)
    everyone: DraftFinding | None = None
    first: int | None = None
    """Index of the block that has the first finding; None if there is no finding. All blocks before the first finding
    form the report's header.
    """
    _around: SectionContext = field(default_factory=SectionContext)
    _current: DraftFinding | None = None
    _field: _OpenField | None = None
    _pending: list[Field] = field(default_factory=list)
    _block: int = 0

    def read(self, blocks: Iterable[FreeformBlock]) -> "Entries":
        for self._block, block in enumerate(blocks):
            if block.kind == "heading" and not block.quoted:
                self._heading(block)
            elif block.kind in ("item", "paragraph"):
                self._words(block)
            elif block.kind == "fence":
                self._fence(block)
            elif block.kind == "table" and not block.quoted:
                self._table(block)
            elif block.kind == "rule":
                self._pending = []
        self._close()
        return self

    def _heading(self, block: FreeformBlock) -> None:
        line = block.lines[0]
        start = parse_line_start(line, whole_line=True)
        current = self._current
        if current is not None and current.origin == "heading" and block.level > current.level:
            if not start.evals or (start.unsure and not start.label):
                self._part(line)
                return
            entry = bool(start.label or start.step or NUMBER.match(plain(line)))
            if not current.for_all and not self._was_category(start, is_entry=entry) and not entry:
                return
        self._close()
        self._pending = []
        self._around.enter_heading(block.level, plain(line))
        if self._around.sections.around not in FAILURE_TOPICS:
            return
        if start.evals or speaks_of_all(plain(line)):
            self._open(start_drafts("heading", line, start), block, start)
        elif start.label:
            self._around.label_heading(block.level, start.label)

    def _part(self, line: Line) -> None:
        """Start the field that a heading inside a finding names.

        For example, `#### Error` starts the field for the error.
        """
        key = Field(plain(line), ()).means(header=False)
        self._field = None if key == "other" else _OpenField(key, 0, self._block, empty=True)

    def _words(self, block: FreeformBlock) -> None:
        if block.kind == "item":
            self._around.enter_item(block.depth)
        self._leave_list(block)
        for line in block.lines:
            if block.quoted:
                self._text(line, block)
            else:
                self._line(line, block)

    def _line(self, line: Line, block: FreeformBlock) -> None:
        fields = parse_fields(line)
        if not fields or fields[0].means(header=False) == "other" or _numbered_eval(fields[0]):
            start = parse_line_start(line, whole_line=False)
            if start.evals and not self._lists_runs(block) and self._may_open(start, block):
                self._list_entry(line, start, block)
                return
            if start.label and not start.evals and block.kind == "item" and self._current is None:
                self._around.label_item(block.depth, start.label)
        if fields:
            for item in fields:
                self._tell(item, block)
        else:
            self._text(line, block)

    def _lists_runs(self, block: FreeformBlock) -> bool:
        """Return whether a list item stands below a line `Run IDs:`, and therefore names a run.

        Without this check, the run id would be read as the name of an eval.
        """
        above = self._pending[-1] if self._pending and self._current is None else None
        return above is not None and block.depth > 1 and not above.text and above.means(header=True) == "run"

    def _may_open(self, start: LineStart, block: FreeformBlock) -> bool:
        current = self._current
        if self._around.topic not in FAILURE_TOPICS and not (current and current.for_all):
            return False
        if current is None or current.for_all:
            return True
        if current.origin == "list" and block.depth <= current.depth:
            return True
        return self._was_category(start)

    def _list_entry(self, line: Line, start: LineStart, block: FreeformBlock) -> None:
        self._close()
        draft = start_drafts("list", line, start)
        self._open(draft, block, start)
        if start.segments:
            draft.add("reasoning", _text_after(line, start))

    def _open(self, draft: DraftFinding, block: FreeformBlock, start: LineStart) -> None:
        draft.level, draft.depth = block.level, block.depth
        draft.category, draft.inherited = self._around.category, self._around.label
        draft.failing = self._around.topic == "failures"
        if start.step and draft.evals:
            draft.add("step", start.step)
        self._current, self._field = draft, None
        if self.first is None:
            self.first = self._block

    def _was_category(self, start: LineStart, is_entry: bool = False) -> bool:
        """If the finding in progress consists only of a name, make this name the category of the following evals.

        Returns True if the name was made a category. If `is_entry` is True, the text in `start` certainly begins a new
        finding. In that case, the name is made a category even if the finding in progress has a remark or fields.
        """
        current = self._current
        if current is None or any("/" in item.name for item in start.evals):
            return False
        if not current.is_only_name and not (is_entry and current.may_be_category):
            return False
        self._around.categorise(current.evals[0].name, current.level, current.depth)
        self._current = None
        return True

    def _leave_list(self, block: FreeformBlock) -> None:
        current = self._current
        if current is None or current.origin != "list":
            return
        if block.depth < current.depth or (block.kind == "item" and block.depth == current.depth):
            self._close()

    def _tell(self, item: Field, block: FreeformBlock) -> None:
        key = item.means(header=False)
        if key == "eval" and self._field_entry(item, block):
            return
        current = self._current
        # The next finding begins with the same field.
        if current is not None and current.origin == "field" and current.first_key == key:
            self._close()
            current = None
        if current is None:
            self._pending.append(item)
            self._statement(item)
        elif key == "other":
            self._text(item.value, block, f"{item.key}: ")
        else:
            current.add(key, item.marked_text)
            self._field = _OpenField(key, block.depth, self._block, empty=not item.text)

    def _field_entry(self, item: Field, block: FreeformBlock) -> bool:
        """Begin a finding at a field that names an eval, such as `Eval: basics/003-schedule`.

        Earlier fields of the same block become part of the finding. Returns False if the field does not name an eval
        that failed.
        """
        start = parse_line_start(item.value, whole_line=True)
        current = self._current
        if not start.evals or self._around.topic not in FAILURE_TOPICS:
            return False
        # The field repeats the eval that the heading names.
        if current is not None and current.origin == "heading" and not current.for_all:
            return True
        self._close()
        draft = start_drafts("field", item.value, start)
        self._open(draft, block, start)
        draft.first_key = self._pending[0].means(header=False) if self._pending else "eval"
        for earlier in self._pending:
            draft.add(earlier.means(header=False), earlier.marked_text)
        self._pending = []
        return True

    def _statement(self, item: Field) -> None:
        """Read a field that states the label of all failures, such as `Classification (all failures): KNOWN_GAP`."""
        if item.means(header=False) == "classification" and speaks_of_all(item.key) and label_in(item.text):
            self.everyone = DraftFinding("field", label=label_in(item.text))

    def _text(self, line: Line, block: FreeformBlock, key: str = "") -> None:
        text, current, open_field = key + marked(line), self._current, self._field
        if current is None:
            self._sentence(plain(line), block)
            return
        if open_field and self._continues(open_field, block):
            current.add(open_field.key, text)
            self._field = _OpenField(open_field.key, open_field.depth, self._block, empty=False)
        elif text:
            current.add("reasoning", text)

    def _continues(self, open_field: _OpenField, block: FreeformBlock) -> bool:
        if open_field.empty or block.depth > open_field.depth:
            return True
        return open_field.block == self._block and open_field.key not in ("classification", "step")

    def _sentence(self, text: str, block: FreeformBlock) -> None:
        """Read a sentence that states the label of all failures, such as `All 5 failures are MODEL_FAULT.`"""
        if block.quoted or self._around.topic not in FAILURE_TOPICS or len(text) > 200:
            return
        label = label_in(text)
        if label and text.lower().startswith(("all ", "every ", "each ")) and speaks_of_all(text):
            self.everyone = DraftFinding("field", label=label)

    def _fence(self, block: FreeformBlock) -> None:
        current, open_field = self._current, self._field
        if current is None:
            return
        if open_field and open_field.key in ("output", "expected", "error"):
            current.add(open_field.key, block.text.strip("\n"))
            self._field = None
        else:
            # Any other fence can quote text from elsewhere, so it gives no label.
            current.fences.append(block.text)

    def _table(self, block: FreeformBlock) -> None:
        drafts = list(rows_of(block.rows)) if self._around.topic in FAILURE_TOPICS else []
        current = self._current
        if current is not None and not current.for_all:
            start = LineStart(tuple(item for draft in drafts for item in draft.evals))
            if not drafts or not self._was_category(start):
                self._facts(block)
                return
        for draft in drafts:
            draft.inherited, draft.failing = self._around.label, self._around.topic == "failures"
            draft.category = draft.category or self._around.category
            self.first = self._block if self.first is None else self.first
        self.drafts.extend(drafts)

    def _facts(self, block: FreeformBlock) -> None:
        """Add each row of a table with two columns as a field to the current finding."""
        for row in block.rows:
            if len(row) == 2 and self._current is not None:
                item = Field(plain(row[0]), row[1])
                if (key := item.means(header=False)) not in ("other", "eval"):
                    self._current.add(key, item.marked_text)

    def _close(self) -> None:
        draft, self._current, self._field = self._current, None, None
        if draft is None:
            return
        if not draft.for_all:
            self.drafts.append(draft)
        elif draft.explicit:
            self.everyone = draft


def _numbered_eval(item: Field) -> bool:
    return any(character.isdigit() for character in item.key)


def _text_after(line: Line, line_start: LineStart) -> str:
    """Return the text of a list item that follows the evals and the label at its beginning."""
    text = marked(line)
    begin = text.find(line_start.segments[0][:40])
    return text[begin:] if begin >= 0 else text
