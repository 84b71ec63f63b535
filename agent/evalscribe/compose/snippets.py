"""Which quotations a finding shows: wrong and right code side by side, at most twelve lines, nothing twice."""

from collections.abc import Iterable, Sequence

from evalscribe.evidence import Citation, Role
from evalscribe.report import Snippet

MAX_LINES = 12
MAX_LINES_OF_ONE = 6
ORDER: tuple[Role, ...] = ("output", "expected", "grader", "known_gaps", "task", "transcript", "log")


def snippets(citations: Sequence[Citation], error: str) -> tuple[Snippet, ...]:
    """The citations worth printing, in the order of `ORDER`; one that only repeats the error line is left out."""
    wanted = [c for c in _ordered(citations) if c.text.strip() and not _repeats(c, error)]
    kept: list[Snippet] = []
    left = MAX_LINES
    for citation in wanted:
        lines = citation.text.split("\n")[: min(MAX_LINES_OF_ONE, left)]
        if not lines:
            break
        kept.append(_snippet(citation, lines))
        left -= len(lines)
    return tuple(kept)


def _ordered(citations: Iterable[Citation]) -> list[Citation]:
    unique = {(c.role, c.path, c.first, c.last): c for c in citations}
    return sorted(unique.values(), key=lambda c: ORDER.index(c.role))


def _repeats(citation: Citation, error: str) -> bool:
    """Whether the report already says it in its error line."""
    quoted, said = " ".join(citation.text.split()), " ".join(error.split())
    return citation.role == "log" and bool(said) and (said in quoted or quoted in said)


def _snippet(citation: Citation, lines: Sequence[str]) -> Snippet:
    return Snippet(
        role=citation.role, path=citation.path, first=citation.first, text="\n".join(lines), status=citation.status
    )
