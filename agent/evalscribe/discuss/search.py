"""Words found in a report and in the evidence of its findings, best places first."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from evalscribe.discuss.dossier import Dossier
from evalscribe.ids import Frozen
from evalscribe.judging.subjects import document_mark

AROUND = 2
"""Lines of context on each side, and how far apart words may stand to be found together."""
MOST_KEPT = 2_000
"""Places that are weighed; the report's come first."""


class Hit(Frozen):
    """A line that holds one of the words at least, and the others near it."""

    finding: int | None
    """None for the report."""
    place: str
    """The report's name, or `role path`."""
    line: int
    """From 1."""
    first: int
    """Number of the first of `lines`."""
    lines: tuple[str, ...]
    """The line with those around it."""
    together: bool
    """Whether the line holds all words itself."""


def search(dossier: Dossier, words: Sequence[str], most: int) -> tuple[Hit, ...]:
    """The best places that hold all words, capitals or not; two of one text are never shown with common lines."""
    wanted = tuple(dict.fromkeys(word.casefold() for word in words if word))
    found = list(islice(_hits(dossier, wanted), MOST_KEPT)) if wanted else []
    best: list[Hit] = []
    for hit in sorted(found, key=lambda hit: not hit.together):
        if len(best) < most and not any(_overlap(hit, other) for other in best):
            best.append(hit)
    return tuple(best)


def _hits(dossier: Dossier, wanted: tuple[str, ...]) -> Iterator[Hit]:
    yield from _in_text(None, dossier.name, dossier.text.split("\n"), wanted)
    for n, evidence in dossier.known():
        for document in evidence.documents:
            yield from _in_text(n, document_mark(document), document.lines, wanted)


def _in_text(n: int | None, place: str, lines: Sequence[str], wanted: tuple[str, ...]) -> Iterator[Hit]:
    folded = [line.casefold() for line in lines]
    for at, line in enumerate(folded):
        if not any(word in line for word in wanted):
            continue
        begin = max(0, at - AROUND)
        if all(_anywhere(word, folded[begin : at + AROUND + 1]) for word in wanted):
            shown = tuple(lines[begin : at + AROUND + 1])
            together = all(word in line for word in wanted)
            yield Hit(finding=n, place=place, line=at + 1, first=begin + 1, lines=shown, together=together)


def _anywhere(word: str, lines: Iterable[str]) -> bool:
    return any(word in line for line in lines)


def _overlap(a: Hit, b: Hit) -> bool:
    return (a.finding, a.place) == (b.finding, b.place) and abs(a.line - b.line) <= 2 * AROUND
