"""Sums by name."""

import csv
from collections import defaultdict


def totals(text: str) -> dict[str, float]:
    """What each name comes to."""
    sums: defaultdict[str, float] = defaultdict(float)
    for row in csv.DictReader(text.splitlines()):
        sums[row["name"]] += float(row["amount"])
    return dict(sums)
