"""Who is first."""

from collections.abc import Mapping


def ranking(scores: Mapping[str, int]) -> list[str]:
    """Names by falling score, then by the alphabet."""
    return sorted(scores, key=lambda name: (-scores[name], name))
