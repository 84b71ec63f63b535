"""Write generated documents that are not reports, such as comparisons. Each document has front matter.

A document that a person edited is never overwritten.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from evalscribe.errors import DataError
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import Frozen, content_id
from evalscribe.text import pluralise

_FRONT = re.compile(r"---\nkind: evalscribe-(?!report/)[a-z]+/\d+\n(?:.*\n)*?text: (sha256:[0-9a-f]{16})\n---\n")


def document(kind: str, facts: Mapping[str, object], lines: Sequence[str]) -> str:
    """Render a document.

    Each fact becomes a line of the front matter, with its value as JSON. Empty facts are omitted.
    """
    body = "\n".join(lines).rstrip("\n") + "\n"
    front_lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in facts.items() if value]
    return "\n".join(["---", f"kind: {kind}", *front_lines, f"text: {_digest(body)}", "---", body])


NOT_ANSWERED = "not_answered"
"""Name of the front-matter fact that counts the questions that the judge did not answer."""


def is_unedited(text: str) -> bool:
    """Return whether a file is a generated document that nobody has edited since evalscribe wrote it."""
    plain = _plain(text)
    match = _FRONT.match(plain)
    return match is not None and _digest(plain[match.end() :]) == match[1]


def same_facts(text: str, other: str, names: Sequence[str]) -> bool:
    """Return whether two documents have the same kind and the same values of the facts in `names`."""
    return _facts(text, names) == _facts(other, names) is not None


def not_answered(text: str) -> int:
    """Return how many of this document's questions the judge did not answer."""
    facts = _facts(text, (NOT_ANSWERED,)) or []
    counts = [match[1] for line in facts if (match := re.fullmatch(rf"{NOT_ANSWERED}: (\d{{1,9}})", line))]
    return int(counts[0]) if counts else 0


def _facts(text: str, names: Sequence[str]) -> list[str] | None:
    head, end, _ = _plain(text).removeprefix("---\n").partition("\n---\n")
    begins = tuple(f"{name}: " for name in ("kind", *names))
    return [line for line in head.split("\n") if line.startswith(begins)] if end else None


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _digest(body: str) -> str:
    return content_id(body)[: len("sha256:") + 16]


BESIDE = ".evalscribe"
MOST_BESIDE = 20


class PlacedDocument(Frozen):
    path: Path
    name: str
    """Path of the document in the reports folder."""
    state: Literal["new", "updated", "unchanged"]
    note: str | None = None
    """Reason why the new text is not in the document's usual file. None if the new text is in that file."""


def place_document(
    library: ReportsFolder, kind: str, short: str, full: str, text: str, same_subject: Callable[[str], bool]
) -> PlacedDocument:
    """Write the text to `short`.md, or to `full`.md if `short`.md is about another subject. If a person edited the
    file, the text is written to a new file beside it.

    Args:
        library: The reports folder.
        kind: Name of the document in messages, such as `comparison`.
        short: Preferred file name without suffix.
        full: Unique file name without suffix.
        text: Text of the document. An existing unedited document that has fewer unanswered questions is not replaced.
        same_subject: Function that takes the text of an existing document and returns whether its subject is the same.

    Raises:
        DataError: All possible file names are taken by pages that people edited.
    """
    current = library.document(f"{short}.md")
    stem = short if current is None or same_subject(current) else full
    names = (f"{stem}.md", *(f"{stem}{f'-{n}' if n > 1 else ''}{BESIDE}.md" for n in range(1, MOST_BESIDE)))
    for number, name in enumerate(names):
        current = library.document(name)
        note = f"{names[0]} was edited and is left as it is; this {kind} is beside it" if number else None
        if current == text:
            return PlacedDocument(path=library.root / name, name=name, state="unchanged", note=note)
        # If the judge answered fewer questions this time, the existing document is kept.
        if current and is_unedited(current) and not_answered(current) < (missing := not_answered(text)):
            note = f"the judge left {pluralise(missing, 'question')} unanswered this time; {name} stays as it was"
            return PlacedDocument(path=library.root / name, name=name, state="unchanged", note=note)
        if current is None or is_unedited(current):
            path = library.write(name, text)
            return PlacedDocument(path=path, name=name, state="updated" if current else "new", note=note)
    raise DataError(
        f"this {kind} was not saved: people have edited {names[0]} and all its alternatives; rename one of them"
    )
