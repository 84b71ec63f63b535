"""A comparison of two runs as lines for people: the verdict first, then what it rests on."""

from collections.abc import Iterator, Sequence

from evalscribe.model.experiment import percent
from evalscribe.model.run_comparison import (
    ItemChange,
    ItemSide,
    PassAtKPair,
    RunComparison,
    RunSide,
    ScorerMovement,
    format_p_value,
)
from evalscribe.text import one_line, pluralise

MOST_SHOWN = 50
"""Items of a kind; all of them are in the JSON."""
HEADS = (
    "",
    "run",
    "experiment",
    "build",
    "passed",
    "failed",
    "errors",
    "unscored",
    "not tried",
    "pass rate",
    "of scored",
)


def told(found: RunComparison) -> Iterator[str]:
    yield one_line(found.said)
    yield from (f"! {one_line(warning)}" for warning in found.warnings)
    if found.passes is None:
        yield from _not_compared(found)
        return
    yield ""
    yield from _rates(found)
    yield from _scorers(found.scorers)
    yield from _changed("regressed", found.regressed)
    yield from _changed("fixed", found.fixed)
    yield from _changed("flaky", found.flaky)
    yield from _several(found.several)
    yield from _rest(found)


def _not_compared(found: RunComparison) -> Iterator[str]:
    if found.verdict == "not-comparable":
        yield "What both runs share can be compared with --allow-mismatch."


def _rates(found: RunComparison) -> Iterator[str]:
    rows = [HEADS, _side("base", found.base), _side("candidate", found.candidate)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    judged = (
        f"{found.judged:,} of {pluralise(found.items, 'item')} judged in both ({percent(found.coverage)} of the tries)"
    )
    yield judged + (f", {pluralise(found.clusters, 'independent observation')}" if found.clusters else "")


def _side(what: str, side: RunSide) -> Sequence[str]:
    counts = (side.passed, side.failed, side.errors, side.unscored, side.missing)
    rates = ("none" if rate is None else percent(rate) for rate in (side.rate, side.rate_of_scored))
    named = (what, one_line(side.name or side.run_id), one_line(side.experiment), side.build or "")
    return (*named, *(f"{count:,}" for count in counts), *rates)


def _scorers(scorers: Sequence[ScorerMovement]) -> Iterator[str]:
    if not scorers:
        return
    yield ""
    several = f" (p corrected for {len(scorers)})" if len(scorers) > 1 else ""
    yield f"scorers{several}"
    yield from (f"  {_scorer(one)}" for one in scorers)


def _scorer(one: ScorerMovement) -> str:
    values = (
        (percent(one.base), percent(one.candidate))
        if one.kind == "passed"
        else (f"{one.base:.3f}", f"{one.candidate:.3f}")
    )
    name = f"{one_line(one.name)}{'' if one.required else ' (not required)'}"
    broken = f"; {one.broken[0]:,} and {one.broken[1]:,} broke or abstained" if any(one.broken) else ""
    moved = f"{one.fell:,} fell, {one.rose:,} rose of {pluralise(one.found.tasks, 'item')}"
    return f"{name}: {values[0]} to {values[1]}, {format_p_value(one.found.p, exact=one.found.exact)}; {moved}{broken}"


def _changed(kind: str, items: Sequence[ItemChange]) -> Iterator[str]:
    if not items:
        return
    yield ""
    yield f"{kind} ({len(items):,})"
    for one in items[:MOST_SHOWN]:
        yield f"  {one_line(one.item)}: {_tries(one)}"
        yield from (f"    {name:<9}  {line}" for name, side in _sides(one) if (line := _said(side)))
    if len(items) > MOST_SHOWN:
        yield f"  and {len(items) - MOST_SHOWN:,} more, in --format json"


def _tries(one: ItemChange) -> str:
    if one.base.scored == one.candidate.scored == 1:
        return "passed, failed now" if one.base.passed else "failed, passes now"
    return f"passed {one.base.passed} of {one.base.scored}, now {one.candidate.passed} of {one.candidate.scored}"


def _sides(one: ItemChange) -> tuple[tuple[str, ItemSide], ...]:
    return ("base", one.base), ("candidate", one.candidate)


def _said(side: ItemSide) -> str:
    return " | ".join(one_line(part) for part in (side.output, side.said) if part)


def _several(found: Sequence[PassAtKPair]) -> Iterator[str]:
    if not found:
        return
    yield ""
    yield "of k tries  one passes (pass@k)  all pass (pass^k)"
    for one in found:
        any, every = (f"{percent(base)} to {percent(candidate)}" for base, candidate in (one.any, one.every))
        yield f"  k = {one.k:<6} {any:<20} {every}"


def _rest(found: RunComparison) -> Iterator[str]:
    lines = [*found.mismatches, *found.notes]
    if found.noise is not None:
        lines.insert(0, f"A/A: flip rate {percent(found.noise)} is this experiment's noise floor.")
    if lines:
        yield ""
    yield from map(one_line, lines)
