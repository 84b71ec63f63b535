"""Walks a free-form report and collects a draft for each failure it tells of."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from evalscribe.recall.blocks import Block, Line, marked, plain
from evalscribe.recall.drafts import NUMBER, Draft, opened
from evalscribe.recall.fields import Field, Key, fields
from evalscribe.recall.lead import Lead, lead
from evalscribe.recall.sections import speaks_of_all
from evalscribe.recall.surroundings import Surroundings
from evalscribe.recall.tables import rows_of
from evalscribe.recall.words import label_in

TELLING = ("none", "failures")
"""Topics of sections that may tell of failures of this run."""


@dataclass(frozen=True, slots=True)
class _OpenField:
    key: Key
    depth: int
    block: int
    empty: bool


@dataclass(slots=True)
class Entries:
    """Reads block by block; `drafts` are the failures told, `everyone` what was said of all of them."""

    drafts: list[Draft] = field(default_factory=list)
    everyone: Draft | None = None
    first: int | None = None
    """The block that tells of the first failure; what stands before it is the report's header."""
    _around: Surroundings = field(default_factory=Surroundings)
    _current: Draft | None = None
    _field: _OpenField | None = None
    _pending: list[Field] = field(default_factory=list)
    _block: int = 0

    def read(self, blocks: Iterable[Block]) -> "Entries":
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

    def _heading(self, block: Block) -> None:
        line = block.lines[0]
        found = lead(line, whole=True)
        current = self._current
        if current is not None and current.origin == "heading" and block.level > current.level:
            if not found.evals or (found.unsure and not found.label):
                self._part(line)
                return
            entry = bool(found.label or found.step or NUMBER.match(plain(line)))
            if not current.for_all and not self._was_category(found, whole=entry) and not entry:
                return
        self._close()
        self._pending = []
        self._around.enter_heading(block.level, plain(line))
        if self._around.sections.around not in TELLING:
            return
        if found.evals or speaks_of_all(plain(line)):
            self._open(opened("heading", line, found), block, found)
        elif found.label:
            self._around.label_heading(block.level, found.label)

    def _part(self, line: Line) -> None:
        """A heading inside a finding names the part that follows: `#### Error`."""
        key = Field(plain(line), ()).means(header=False)
        self._field = None if key == "other" else _OpenField(key, 0, self._block, empty=True)

    def _words(self, block: Block) -> None:
        if block.kind == "item":
            self._around.enter_item(block.depth)
        self._leave_list(block)
        for line in block.lines:
            if block.quoted:
                self._text(line, block)
            else:
                self._line(line, block)

    def _line(self, line: Line, block: Block) -> None:
        told = fields(line)
        if not told or told[0].means(header=False) == "other" or _numbered_eval(told[0]):
            found = lead(line, whole=False)
            if found.evals and not self._lists_runs(block) and self._may_open(found, block):
                self._list_entry(line, found, block)
                return
            if found.label and not found.evals and block.kind == "item" and self._current is None:
                self._around.label_item(block.depth, found.label)
        if told:
            for one in told:
                self._tell(one, block)
        else:
            self._text(line, block)

    def _lists_runs(self, block: Block) -> bool:
        """Whether an item belongs to a `Run IDs:` line above it, since run ids look like eval names."""
        above = self._pending[-1] if self._pending and self._current is None else None
        return above is not None and block.depth > 1 and not above.text and above.means(header=True) == "run"

    def _may_open(self, found: Lead, block: Block) -> bool:
        current = self._current
        if self._around.topic not in TELLING and not (current and current.for_all):
            return False
        if current is None or current.for_all:
            return True
        if current.origin == "list" and block.depth <= current.depth:
            return True
        return self._was_category(found)

    def _list_entry(self, line: Line, found: Lead, block: Block) -> None:
        self._close()
        draft = opened("list", line, found)
        self._open(draft, block, found)
        if found.segments:
            draft.add("reasoning", _behind(line, found))

    def _open(self, draft: Draft, block: Block, found: Lead) -> None:
        draft.level, draft.depth = block.level, block.depth
        draft.category, draft.inherited = self._around.category, self._around.label
        draft.failing = self._around.topic == "failures"
        if found.step and draft.evals:
            draft.add("step", found.step)
        self._current, self._field = draft, None
        if self.first is None:
            self.first = self._block

    def _was_category(self, found: Lead, whole: bool = False) -> bool:
        """A heading or item that says no more than a name, with evals below it, names their category.

        `whole`: what is below is surely an entry, so that a remark beside the name changes nothing.
        """
        current = self._current
        if current is None or any("/" in named.name for named in found.evals):
            return False
        if not current.only_named and not (whole and current.may_be_category):
            return False
        self._around.categorise(current.evals[0].name, current.level, current.depth)
        self._current = None
        return True

    def _leave_list(self, block: Block) -> None:
        current = self._current
        if current is None or current.origin != "list":
            return
        if block.depth < current.depth or (block.kind == "item" and block.depth == current.depth):
            self._close()

    def _tell(self, told: Field, block: Block) -> None:
        key = told.means(header=False)
        if key == "eval" and self._field_entry(told, block):
            return
        current = self._current
        if current is not None and current.origin == "field" and current.first_key == key:
            self._close()
            current = None
        if current is None:
            self._pending.append(told)
            self._statement(told)
        elif key == "other":
            self._text(told.value, block, f"{told.key}: ")
        else:
            current.add(key, told.said)
            self._field = _OpenField(key, block.depth, self._block, empty=not told.text)

    def _field_entry(self, told: Field, block: Block) -> bool:
        """`Eval: basics/003-schedule` begins a finding; what stood before it in its block belongs to it."""
        found = lead(told.value, whole=True)
        current = self._current
        if not found.evals or self._around.topic not in TELLING:
            return False
        if current is not None and current.origin == "heading" and not current.for_all:
            return True
        self._close()
        draft = opened("field", told.value, found)
        self._open(draft, block, found)
        draft.first_key = self._pending[0].means(header=False) if self._pending else "eval"
        for earlier in self._pending:
            draft.add(earlier.means(header=False), earlier.said)
        self._pending = []
        return True

    def _statement(self, told: Field) -> None:
        """`Classification (all failures): KNOWN_GAP` outside any finding speaks of all of them."""
        if told.means(header=False) == "classification" and speaks_of_all(told.key) and label_in(told.text):
            self.everyone = Draft("field", label=label_in(told.text))

    def _text(self, line: Line, block: Block, key: str = "") -> None:
        said, current, open_field = key + marked(line), self._current, self._field
        if current is None:
            self._sentence(plain(line), block)
            return
        if open_field and self._continues(open_field, block):
            current.add(open_field.key, said)
            self._field = _OpenField(open_field.key, open_field.depth, self._block, empty=False)
        elif said:
            current.add("reasoning", said)

    def _continues(self, open_field: _OpenField, block: Block) -> bool:
        if open_field.empty or block.depth > open_field.depth:
            return True
        return open_field.block == self._block and open_field.key not in ("classification", "step")

    def _sentence(self, text: str, block: Block) -> None:
        """`All 5 failures are MODEL_FAULT.`"""
        if block.quoted or self._around.topic not in TELLING or len(text) > 200:
            return
        label = label_in(text)
        if label and text.lower().startswith(("all ", "every ", "each ")) and speaks_of_all(text):
            self.everyone = Draft("field", label=label)

    def _fence(self, block: Block) -> None:
        current, open_field = self._current, self._field
        if current is None:
            return
        if open_field and open_field.key in ("output", "expected", "error"):
            current.add(open_field.key, block.text.strip("\n"))
            self._field = None
        else:
            current.fences.append(block.text)

    def _table(self, block: Block) -> None:
        drafts = list(rows_of(block.rows)) if self._around.topic in TELLING else []
        current = self._current
        if current is not None and not current.for_all:
            named = Lead(tuple(named for draft in drafts for named in draft.evals))
            if not drafts or not self._was_category(named):
                self._facts(block)
                return
        for draft in drafts:
            draft.inherited, draft.failing = self._around.label, self._around.topic == "failures"
            draft.category = draft.category or self._around.category
            self.first = self._block if self.first is None else self.first
        self.drafts.extend(drafts)

    def _facts(self, block: Block) -> None:
        """A table of two columns inside a finding holds its fields."""
        for row in block.rows:
            if len(row) == 2 and self._current is not None:
                told = Field(plain(row[0]), row[1])
                if (key := told.means(header=False)) not in ("other", "eval"):
                    self._current.add(key, told.said)

    def _close(self) -> None:
        draft, self._current, self._field = self._current, None, None
        if draft is None:
            return
        if not draft.for_all:
            self.drafts.append(draft)
        elif draft.explicit:
            self.everyone = draft


def _numbered_eval(told: Field) -> bool:
    return any(character.isdigit() for character in told.key)


def _behind(line: Line, found: Lead) -> str:
    """The words of an item behind its evals and label."""
    text = marked(line)
    start = text.find(found.segments[0][:40])
    return text[start:] if start >= 0 else text
