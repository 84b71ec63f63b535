"""Several tries at one item: how often one of some passes, how often all do, and whether two sides' tries differ."""

from math import comb


def pass_at(passed: int, tries: int, k: int) -> float | None:
    """pass@k: how often at least one of `k` of the tries passed; None for fewer tries than that."""
    return None if tries < k else 1 - comb(tries - passed, k) / comb(tries, k)


def pass_every(passed: int, tries: int, k: int) -> float | None:
    """pass^k: how often all of `k` of the tries passed; None for fewer tries than that."""
    return None if tries < k else comb(passed, k) / comb(tries, k)


def fisher(passed: tuple[int, int], tries: tuple[int, int]) -> float:
    """Fisher's exact two-sided p of two sides' tries: how often dealing the passes out by luck gives a deal no likelier
    than this one."""
    whole, all_passed = sum(tries), sum(passed)
    deals = [
        comb(tries[0], its) * comb(tries[1], all_passed - its)
        for its in range(max(0, all_passed - tries[1]), min(tries[0], all_passed) + 1)
    ]
    seen = comb(tries[0], passed[0]) * comb(tries[1], passed[1])
    return sum(deal for deal in deals if deal <= seen) / comb(whole, all_passed)
