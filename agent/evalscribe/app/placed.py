"""Put a document of another kind than a run's report where it belongs; what people edited stays as it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from evalscribe.errors import DataError
from evalscribe.ids import Frozen
from evalscribe.model.protocols import Library
from evalscribe.reports.documents import untouched

BESIDE = ".evalscribe"
MOST_BESIDE = 20


class Put(Frozen):
    path: Path
    name: str
    """Below the reports folder."""
    state: Literal["new", "updated", "unchanged"]
    note: str | None = None
    """Why it is not where one would look for it."""


def put(library: Library, what: str, short: str, whole: str, text: str, same: Callable[[str], bool]) -> Put:
    """Write the text as `short`.md, or as `whole`.md where that is of something else.

    `what`: how messages call it, `comparison`; `same`: whether a document that is there is about the same.
    Raises `DataError` where people edited every file that it could be.
    """
    there = library.document(f"{short}.md")
    stem = short if there is None or same(there) else whole
    names = (f"{stem}.md", *(f"{stem}{f'-{n}' if n > 1 else ''}{BESIDE}.md" for n in range(1, MOST_BESIDE)))
    for number, name in enumerate(names):
        there = library.document(name)
        note = f"{names[0]} was edited and is left as it is; this {what} stands beside it" if number else None
        if there == text:
            return Put(path=library.root / name, name=name, state="unchanged", note=note)
        if there is None or untouched(there):
            path = library.write(name, text)
            return Put(path=path, name=name, state="updated" if there else "new", note=note)
    raise DataError(f"every name for this {what} is taken by pages that people edited: {names[0]} and so on")
