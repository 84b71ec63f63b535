from collections.abc import Mapping


def ranking(scores: Mapping[str, int]) -> list[str]:
    """Rank names by descending score; ties are alphabetical."""
    by_name = sorted(scores)
    return sorted(by_name, key=lambda name: scores[name], reverse=True)
