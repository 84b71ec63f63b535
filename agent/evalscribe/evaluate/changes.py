"""Which items changed between two runs, and which only waver."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from evalscribe.evaluate.sided import Sided, Tried
from evalscribe.model.run_comparison import ItemChange, ItemSide
from evalscribe.statistics.significance import ALPHA, fisher_exact_test

Kind = Literal["regressed", "fixed", "flaky"]


class Changes(NamedTuple):
    regressed: tuple[ItemChange, ...]
    fixed: tuple[ItemChange, ...]
    flaky: tuple[ItemChange, ...]


def changes(base: Sided, candidate: Sided, keys: Sequence[str]) -> Changes:
    """Of items that both sides have a verdict on."""
    found: dict[Kind, list[ItemChange]] = {"regressed": [], "fixed": [], "flaky": []}
    for key in keys:
        before, now = base.scored(key), candidate.scored(key)
        if kind := change(_passed(before), len(before), _passed(now), len(now)):
            own = ItemChange(item=key, base=_side(before), candidate=_side(now), scorers=tuple(_scorers(before, now)))
            found[kind].append(own)
    return Changes(*(tuple(found[kind]) for kind in ("regressed", "fixed", "flaky")))


def change(before: int, of_base: int, now: int, of_candidate: int) -> Kind | None:
    """By how many of the tries of each side passed; None where nothing changed.

    An item that passed every try and now passes none has regressed, the other way round it is fixed. Where some tries
    of a side pass and some do not, it is flaky, unless Fisher's exact test of the tries says that the sides differ.
    """
    steady = before in (0, of_base) and now in (0, of_candidate)
    better = now * of_base > before * of_candidate
    if steady and bool(before) == bool(now):
        return None
    if steady or fisher_exact_test((before, now), (of_base, of_candidate)) <= ALPHA:
        return "fixed" if better else "regressed"
    return "flaky"


def _passed(tries: Sequence[Tried]) -> int:
    return sum(one.verdict == "passed" for one in tries)


def _side(tries: Sequence[Tried]) -> ItemSide:
    return ItemSide(passed=_passed(tries), scored=len(tries))


def _scorers(before: Sequence[Tried], now: Sequence[Tried]) -> Iterator[str]:
    """Whose share of passes differs."""
    for name in before[0].scores:
        shares = [
            [said.passed for one in side if (said := one.scores.get(name)) and said.status == "ok"]
            for side in (before, now)
        ]
        if all(shares) and shares[0].count(True) * len(shares[1]) != shares[1].count(True) * len(shares[0]):
            yield name
