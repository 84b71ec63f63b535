"""Several tests at once."""

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")


def holm(chances: Mapping[K, float]) -> dict[K, float]:
    """p values corrected for how many there are: none of all is below 0.05 by luck more often than in 1 of 20 cases."""
    corrected: dict[K, float] = {}
    worst = 0.0
    ranked = sorted(chances.items(), key=lambda item: item[1])
    for rank, (key, chance) in enumerate(ranked):
        worst = max(worst, min(1.0, chance * (len(ranked) - rank)))
        corrected[key] = worst
    return {key: corrected[key] for key in chances}
