"""The verdict on two runs, in a sentence that says what it rests on."""

from typing import NamedTuple

from evalscribe.model.experiment import percent
from evalscribe.model.run_comparison import RunVerdict, format_p_value, format_points
from evalscribe.statistics.paired import Paired
from evalscribe.statistics.significance import ALPHA
from evalscribe.text import pluralise

LEAST_COVERAGE = 0.8
"""Below it too much is unknown to say anything."""


class Outcome(NamedTuple):
    verdict: RunVerdict
    said: str


def outcome(found: Paired, coverage: float, rates: tuple[float, float], *, clustered: bool = False) -> Outcome:
    """`rates`: of base and candidate over the items that were tested."""
    if coverage < LEAST_COVERAGE:
        return Outcome("inconclusive", _uncovered(coverage))
    moved = f"{percent(rates[0])} to {percent(rates[1])} ({_difference(found)}) over {pluralise(found.tasks, 'item')}"
    if found.significant:
        better = found.difference > 0
        verdict: RunVerdict = "improved" if better else "regressed"
        return Outcome(verdict, f"{verdict.capitalize()}: the pass rate {'rose' if better else 'fell'} from {moved}.")
    units = "clusters of items" if clustered else "items"
    if found.detectable is None:
        few = f"{len(found.clusters)} {units}" if len(found.clusters) > 1 else "so few items"
        return Outcome(
            "inconclusive", f"Inconclusive: {few} are too few to tell a change from luck; pass rate {moved}."
        )
    if flips := _one_way(found):
        return Outcome(
            "inconclusive", f"Inconclusive: too few flips to tell; {_flipped(found, flips, units)}; {moved}."
        )
    seen = f"a change of {format_points(found.detectable)} would have been seen in 8 of 10 such comparisons"
    return Outcome("no-detectable-change", f"No detectable change: pass rate {moved}; {seen}.")


def _difference(found: Paired) -> str:
    low, high = (end * 100 for end in found.interval)
    chance = format_p_value(found.test.p_value, exact=found.test.exact)
    return f"{found.difference * 100:+.1f} points, 95 %: {low:+.1f} to {high:+.1f}, {chance}"


def _uncovered(coverage: float) -> str:
    if not coverage:
        return "Inconclusive: no item has a verdict in both runs."
    needed = f"at least {percent(LEAST_COVERAGE)} are needed"
    return f"Inconclusive: only {percent(coverage)} of the tries have a verdict in both runs, {needed}."


def _one_way(found: Paired) -> int | None:
    """How many of what is tested moved, where all went one way and are too few ever to be more than luck."""
    ups = sum(group.balanced > 0 for group in found.clusters)
    downs = sum(group.balanced < 0 for group in found.clusters)
    moved = ups + downs
    return moved if 0 in (ups, downs) and moved and 2.0 ** (1 - moved) > ALPHA else None


def _flipped(found: Paired, flips: int, units: str) -> str:
    one = units.removesuffix("s") if units == "items" else "cluster of items"
    way = "better" if found.difference > 0 else "worse"
    return (
        f"{flips:,} {one if flips == 1 else units} moved, for the {way}, and fewer than 6 that way may always be luck"
    )
