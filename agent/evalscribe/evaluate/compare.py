"""Two runs of experiments over the same items: what changed, and whether that is luck."""

from collections.abc import Iterable

from evalscribe.experiment import RunItem


def new_failures(base: Iterable[RunItem], candidate: Iterable[RunItem]) -> tuple[str, ...]:
    """Keys of the items that passed in every try of the base and not in every try of the candidate, as the base has
    them. An item that the candidate never tried, or of which it has no verdict, did not pass."""
    passed = _all_passed(candidate)
    return tuple(key for key, whole in _all_passed(base).items() if whole and not passed.get(key, False))


def _all_passed(items: Iterable[RunItem]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for item in items:
        found[item.item_key] = found.get(item.item_key, True) and item.verdict == "passed"
    return found
