"""The model's code against the reference, and the code that an error points to."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from evalscribe.diff import Hunk, Pair, hunks
from evalscribe.gather.pieces import Range, clipped, excerpts, fitting, is_boilerplate, shown
from evalscribe.judging import prompt_text
from evalscribe.model.evidence import Document, Evidence, Excerpt, LocatedError, OutputLine

AROUND = 4
"""Lines around a place that an error points to."""
MANIFESTS = ("package.json", "pyproject.toml", "requirements.txt", "setup.cfg", "cargo.toml", "go.mod")
FILE_BUDGET = 1500
"""Tokens of one file that only the model has."""
BOILERPLATE_BUDGET = 200
"""Tokens of the names of boilerplate files."""
MANY_FILES = 60
"""Files of the output that excerpts are taken from."""


class Differences(NamedTuple):
    text: str
    covered: dict[str, tuple[Range, ...]]
    """Lines of the output, by path, that the text prints."""
    left_out: tuple[str, ...]


def differences(both: Sequence[Pair], located: Sequence[LocatedError], budget: int) -> Differences:
    """Output against reference, file by file: those that an error points to first, then code, then manifests.

    What only one side has is named; so is what the budget leaves out.
    """
    pointed = {place.path for error in located for place in error.places}
    names = list(_named(both, budget // 10))
    budget -= sum(prompt_text.estimate_tokens(line) + 1 for line in names)
    printed: list[str] = []
    covered: dict[str, tuple[Range, ...]] = {}
    left_out: list[str] = []
    for pair in sorted(both, key=lambda pair: _rank(pair, pointed)):
        if pair.output is None or pair.expected is None or is_boilerplate(pair.output.path):
            continue
        found = hunks(pair)
        texts, kept = _fitting(pair, found, budget)
        budget -= sum(prompt_text.estimate_tokens(text) + 1 for text in texts)
        printed += texts
        covered[pair.output.path] = tuple(_lines(hunk) for hunk in found[:kept])
        if kept < len(found):
            left_out.append(f"{len(found) - kept} of {len(found)} differences in {shown(pair.output.path)}")
    return Differences("\n".join([*printed, *names]), covered, (*left_out, *_boilerplate(both)))


def code_excerpts(
    evidence: Evidence, both: Sequence[Pair], located: Sequence[LocatedError], told: Differences
) -> list[Excerpt]:
    """The lines around each place that no printed difference covers, and the files that only the model has."""
    found: list[Excerpt] = []
    places = tuple(place for error in located for place in error.places)
    alone = {id(p.output) for p in both if p.output and p.expected is None}
    for document in evidence.of("output")[:MANY_FILES]:
        ranges = list(_around(document, places, told.covered.get(document.path, ())))
        if id(document) in alone and not is_boilerplate(document.path):
            ranges.append((1, fitting(document.lines, FILE_BUDGET)))
        found += excerpts(document, ranges)
    return found


def _rank(pair: Pair, pointed: set[str]) -> tuple[bool, bool, int]:
    path = pair.output.path if pair.output else ""
    return path not in pointed, _is_manifest(path), path.count("/")


def _is_manifest(path: str) -> bool:
    return path.rpartition("/")[2].lower() in MANIFESTS


def _fitting(pair: Pair, found: Sequence[Hunk], budget: int) -> tuple[list[str], int]:
    """The hunks that fit, below the names of the two files, and how many they are."""
    if not found or pair.output is None or pair.expected is None:
        return [], 0
    texts = [f"--- {shown(pair.expected.path)}\n+++ {shown(pair.output.path)}"]
    spent = prompt_text.estimate_tokens(texts[0]) + 1
    for at, hunk in enumerate(found):
        text = "\n".join(["@@", *(clipped(line) for line in hunk.lines)])
        spent += prompt_text.estimate_tokens(text) + 1
        if spent > budget:
            return (texts if at else []), at
        texts.append(text)
    return texts, len(found)


def _lines(hunk: Hunk) -> Range:
    """The lines of the output that a hunk prints."""
    printed = sum(not line.startswith("-") for line in hunk.lines)
    return hunk.output_first, hunk.output_first + printed - 1


def _around(document: Document, places: Iterable[OutputLine], covered: Iterable[Range]) -> Iterator[Range]:
    covered = tuple(covered)
    for place in places:
        within = any(first <= place.line <= last for first, last in covered)
        if place.path == document.path and not within:
            yield place.line - AROUND, place.line + AROUND


def _named(both: Sequence[Pair], budget: int) -> Iterator[str]:
    """What only one side has, and what is equal on both, by name; each list within the budget."""
    lacking = [p.expected for p in both if p.output is None and p.expected and not is_boilerplate(p.expected.path)]
    yield from _list("Only in the reference, not printed", [f"{shown(d.path)} ({_size(d)})" for d in lacking], budget)
    added = [p.output for p in both if p.expected is None and p.output and not is_boilerplate(p.output.path)]
    yield from _list("Only in the output", [f"{shown(d.path)} ({_size(d)})" for d in added], budget)
    equal = [p.output for p in both if p.output and p.expected and p.output.text == p.expected.text]
    yield from _list("Equal in both", [shown(d.path) for d in equal if not is_boilerplate(d.path)], budget)


def _list(title: str, names: Sequence[str], budget: int) -> Iterator[str]:
    """One line of as many names as fit, and how many more there are; nothing where not even the title fits."""
    count = fitting(names, budget - prompt_text.estimate_tokens(title) - 8)
    more = f" and {len(names) - count} more" if count < len(names) else ""
    if names and budget > prompt_text.estimate_tokens(title) + 8:
        yield f"{title}: {', '.join(names[:count])}{more}"


def _size(document: Document) -> str:
    return f"{len(document.lines)} lines"


def _boilerplate(both: Sequence[Pair]) -> Iterator[str]:
    """Boilerplate by name, once for both sides."""
    named = [document.path for pair in both if (document := pair.output or pair.expected)]
    yield from _list("boilerplate", [shown(path) for path in named if is_boilerplate(path)], BOILERPLATE_BUDGET)
