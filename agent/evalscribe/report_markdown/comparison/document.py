"""Front matter of a comparison, with which one sees whether people edited it."""

import json
import re
from collections.abc import Sequence

from evalscribe.ids import content_id

KIND = "evalscribe-compare/1"
_FRONT = re.compile(r"---\nkind: evalscribe-compare/\d+\n(?:.*\n)*?text: (sha256:[0-9a-f]{16})\n---\n")


def document(base: Sequence[str], candidate: Sequence[str], judge: str | None, lines: Sequence[str]) -> str:
    """The whole file; `base` and `candidate` are ids of runs."""
    body = "\n".join(lines).rstrip("\n") + "\n"
    facts = {"base": list(base), "candidate": list(candidate), "judge": judge}
    told = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in facts.items() if value]
    return "\n".join(["---", f"kind: {KIND}", *told, f"text: {_digest(body)}", "---", body])


def untouched(text: str) -> bool:
    """Whether a file is a comparison as evalscribe wrote it."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    match = _FRONT.match(plain)
    return match is not None and _digest(plain[match.end() :]) == match[1]


def same_runs(text: str, other: str) -> bool:
    """Whether two documents compare the same runs, as far as their front matter says."""
    return _runs(text) == _runs(other) is not None


def _runs(text: str) -> list[str] | None:
    head, end, _ = text.removeprefix("\ufeff").replace("\r\n", "\n").removeprefix("---\n").partition("\n---\n")
    told = [line for line in head.split("\n") if line.startswith(("base: ", "candidate: "))]
    return told if end else None


def _digest(body: str) -> str:
    return content_id(body)[: len("sha256:") + 16]
