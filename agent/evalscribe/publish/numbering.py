"""Ids of recommendations stay with their cause from revision to revision."""

import re
from collections.abc import Iterable, Sequence

from evalscribe.model.finding import Recommendation
from evalscribe.model.report import replaced


def numbered(
    new: Sequence[Recommendation], old: Sequence[Recommendation], actions: str = ""
) -> tuple[Recommendation, ...]:
    """The new ones with the ids of the old ones that they continue; others are numbered after the highest.

    An id that people wrote into `actions` (`Actions taken`) is never given to something else.
    """
    kept = _continued(new, old)
    known = [item.id[1:] for item in old if item.id] + re.findall(r"\bR(\d{1,4})\b", actions)
    number = max(map(int, known), default=0)
    result = []
    for at, item in enumerate(new):
        if item.id is not None and at not in kept:
            number += 1
        result.append(item if item.id is None else replaced(item, id=kept.get(at) or f"R{number}"))
    return tuple(result)


def _continued(new: Sequence[Recommendation], old: Sequence[Recommendation]) -> dict[int, str]:
    """Ids by position: the pair that is most alike first, each id once."""
    pairs = (
        (_likeness(item, other), -at, other.id)
        for at, item in enumerate(new)
        for other in old
        if item.id is not None and other.id is not None
    )
    kept: dict[int, str] = {}
    for likeness, at, id_ in sorted(pairs, reverse=True):
        if likeness > 0 and -at not in kept and id_ not in kept.values():
            kept[-at] = id_
    return kept


def _likeness(item: Recommendation, other: Recommendation) -> float:
    """0 for nothing in common; the same text, then the share of evals in common, then the same group."""
    overlap = _share(item.evals, other.evals)
    same_text = item.text == other.text
    return 0.0 if not (same_text or overlap) else 4 * same_text + 2 * overlap + (item.group == other.group)


def _share(some: Iterable[str], others: Iterable[str]) -> float:
    a, b = set(some), set(others)
    return len(a & b) / len(a | b) if a | b else 0.0
