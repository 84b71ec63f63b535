"""Tables of failures, whatever the order and names of their columns."""

import re
from collections.abc import Iterator, Sequence

from evalscribe.recall.blocks import Line, marked, plain
from evalscribe.recall.drafts import Draft
from evalscribe.recall.fields import PAST, Field, Key
from evalscribe.recall.lead import JOINER, Named, lead
from evalscribe.recall.words import is_label, is_marked_name, is_name, key_of, label_in

Rows = Sequence[Sequence[Line]]
NO_VALUE = ("", "-", "–", "—", "n/a", "none", "✅", "ok")
PASSED = re.compile(r"\W*(pass(es|ed|ing)?|ok|fixed|resolved|success)\b", re.IGNORECASE)
_EVALS = re.compile(r"^(failed |failing )?(evals?|evaluations?|tests?|tasks?|cases?|names?)( (name|path|id))?s?$")


def rows_of(rows: Rows) -> Iterator[Draft]:
    """A draft per row and eval of a table that says of evals why they failed; nothing for any other table."""
    columns = _columns(rows)
    if "eval" not in columns or not columns.keys() & {"classification", "step", "error"}:
        return
    for row in rows[1:]:
        cells = {key: row[n] for key, n in columns.items() if n < len(row)}
        draft = _row(cells)
        if draft is not None:
            yield draft


def _columns(rows: Rows) -> dict[Key, int]:
    """Which column holds what: by its header, else by what stands in it."""
    header = [key_of(plain(cell)) for cell in rows[0]] if rows else []
    columns: dict[Key, int] = {}
    for number, title in enumerate(header):
        key = _meaning(title, plain(rows[0][number]), _column(rows, number))
        if key is not None:
            columns.setdefault(key, number)
    left = [n for n in range(len(header)) if n not in columns.values() and _names_evals(rows, n)]
    if left:
        columns.setdefault("eval", left[0])
    return columns


def _column(rows: Rows, number: int) -> list[str]:
    texts = (plain(row[number]) for row in rows[1:200] if number < len(row))
    return [text for text in texts if text.lower() not in NO_VALUE]


def _meaning(title: str, header: str, cells: Sequence[str]) -> Key | None:
    labelled = sum(is_label(cell) for cell in cells) * 2 >= len(cells) > 0
    if labelled:
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


def _row(cells: dict[Key, Line]) -> Draft | None:
    evals = _evals(cells["eval"])
    said = plain(cells.get("classification", ()))
    if (
        not evals
        or PASSED.match(said)
        or ("classification" in cells and said.lower() in NO_VALUE and not _value(cells, "step"))
    ):
        return None
    label = label_in(said)
    if not all(is_marked_name(named.name) for named in evals) and label is None:
        return None
    category = _value(cells, "category")
    draft = Draft("table", evals, label, category=category if category and is_name(category) else None)
    for key in ("step", "error", "reasoning", "action"):
        if key in cells and _value(cells, key):
            draft.add(key, marked(cells[key]))
    return draft


def _evals(cell: Line) -> tuple[Named, ...]:
    """The evals that a cell names; in a column of evals any single word will do."""
    found = lead(cell, whole=True).evals
    if found:
        return found
    words = [word.strip() for word in JOINER.split(plain(cell))]
    return tuple(Named(word) for word in words) if words and all(is_name(word) for word in words) else ()


def _value(cells: dict[Key, Line], key: Key) -> str | None:
    text = plain(cells.get(key, ()))
    return None if text.lower() in NO_VALUE else text
