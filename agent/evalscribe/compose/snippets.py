"""Which quotations a finding shows: wrong and right code side by side, at most twelve lines, nothing twice."""

from collections.abc import Sequence

from evalscribe.model.evidence import Citation, Role
from evalscribe.model.report import SNIPPET_LINES, Snippet

MAX_LINES_OF_ONE = 6
ORDER: tuple[Role, ...] = ("output", "expected", "grader", "known_gaps", "task", "transcript", "log")


def snippets(citations: Sequence[Citation]) -> tuple[Snippet, ...]:
    """The citations worth printing, in the order of `ORDER`.

    Lines of the log only where nothing else is quoted: the entry's error line says what they say.
    """
    unique = {(c.role, c.path, c.first, c.last): c for c in citations if c.text.strip()}
    ordered = sorted(unique.values(), key=lambda c: ORDER.index(c.role))
    wanted = [c for c in ordered if c.role != "log"] or ordered
    kept: list[Snippet] = []
    left = SNIPPET_LINES
    for citation in wanted:
        lines = citation.text.split("\n")[: min(MAX_LINES_OF_ONE, left)]
        if lines:
            kept.append(_snippet(citation, lines))
            left -= len(lines)
    return tuple(kept)


def _snippet(citation: Citation, lines: Sequence[str]) -> Snippet:
    return Snippet(
        role=citation.role, path=citation.path, first=citation.first, text="\n".join(lines), status=citation.status
    )
