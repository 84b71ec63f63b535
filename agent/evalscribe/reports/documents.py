"""Front matter of generated documents that are not reports: comparisons and explorations."""

import json
import re
from collections.abc import Mapping, Sequence

from evalscribe.ids import content_id

_FRONT = re.compile(r"---\nkind: evalscribe-(?!report/)[a-z]+/\d+\n(?:.*\n)*?text: (sha256:[0-9a-f]{16})\n---\n")


def document(kind: str, facts: Mapping[str, object], lines: Sequence[str]) -> str:
    """The whole file. Each of the facts is one line of front matter, as JSON; what is empty is left out."""
    body = "\n".join(lines).rstrip("\n") + "\n"
    told = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in facts.items() if value]
    return "\n".join(["---", f"kind: {kind}", *told, f"text: {_digest(body)}", "---", body])


def untouched(text: str) -> bool:
    """Whether a file is such a document as evalscribe wrote it."""
    plain = _plain(text)
    match = _FRONT.match(plain)
    return match is not None and _digest(plain[match.end() :]) == match[1]


def same_facts(text: str, other: str, names: Sequence[str]) -> bool:
    """Whether two documents are of one kind and say the same of these facts."""
    return _facts(text, names) == _facts(other, names) is not None


def _facts(text: str, names: Sequence[str]) -> list[str] | None:
    head, end, _ = _plain(text).removeprefix("---\n").partition("\n---\n")
    begins = tuple(f"{name}: " for name in ("kind", *names))
    return [line for line in head.split("\n") if line.startswith(begins)] if end else None


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _digest(body: str) -> str:
    return content_id(body)[: len("sha256:") + 16]
