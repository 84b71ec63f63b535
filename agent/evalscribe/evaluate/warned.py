"""What must not be overlooked beside the verdict on two runs, and what limits it."""

from collections.abc import Iterator, Sequence

from evalscribe.evaluate.comparable import MOST_NAMED, Shared
from evalscribe.evaluate.movements import clusters_of
from evalscribe.evaluate.outcome import Outcome
from evalscribe.evaluate.sided import Sided, passes
from evalscribe.model.run_comparison import ScorerMovement, format_p_value
from evalscribe.statistics.paired import Task, paired
from evalscribe.text import join_first, pluralise


def warnings(
    base: Sided, candidate: Sided, keys: Sequence[str], found: Outcome, scorers: Sequence[ScorerMovement]
) -> tuple[str, ...]:
    return (
        *_broken(base, candidate, keys),
        *_ended(base, candidate),
        *_worst(base, candidate, keys, found),
        *_fell(found, scorers),
    )


def notes(base: Sided, candidate: Sided, both: Shared, *, clustered: bool) -> tuple[str, ...]:
    return tuple(_notes(base, candidate, both, clustered))


def _broken(base: Sided, candidate: Sided, keys: Sequence[str]) -> Iterator[str]:
    """An error is no evidence of a regression, but it must not hide."""
    for why, what in (("error", "gave no answer"), ("unscored", "could not be scored")):
        new = [key for key in keys if _has(candidate, key, why) and not _has(base, key, why)]
        if new:
            named = join_first(new, MOST_NAMED)
            yield f"{pluralise(len(new), 'item')} {what} in the candidate and did in the base: {named}."


def _has(side: Sided, key: str, verdict: str) -> bool:
    return any(one.verdict == verdict for one in side.of(key))


def _ended(base: Sided, candidate: Sided) -> Iterator[str]:
    for what, side in (("base", base), ("candidate", candidate)):
        if side.run.state != "completed":
            reason = f" ({side.run.reason})" if side.run.reason else ""
            yield f"The {what} run {side.run.state}{reason}: what it did not try is missing here."


def _worst(base: Sided, candidate: Sided, keys: Sequence[str], found: Outcome) -> Iterator[str]:
    """What would be said if whatever has no verdict had failed."""
    tries = [(base.of(key), candidate.of(key)) for key in keys]
    if found.verdict == "regressed" or not any(not one.scored for sides in tries for side in sides for one in side):
        return
    both = [key for key, (before, now) in zip(keys, tries, strict=True) if before and now]
    tasks = [Task(passes(base.of(key)), passes(candidate.of(key))) for key in both]
    whole = paired(tasks, clusters=clusters_of(base, both))
    if whole.significant and whole.difference < 0:
        chance = format_p_value(whole.test.p_value, exact=whole.test.exact)
        yield f"Counted as failures, the tries without a verdict would make the candidate a regression ({chance})."


def _fell(found: Outcome, scorers: Sequence[ScorerMovement]) -> Iterator[str]:
    """A scorer that fell while the pass rate did not show it."""
    for one in scorers:
        if found.verdict != "regressed" and one.found.significant and one.found.difference < 0:
            chance = format_p_value(one.found.p, exact=one.found.exact)
            several = f", corrected for {pluralise(len(scorers), 'scorer')}" if len(scorers) > 1 else ""
            yield f"Scorer {one.name} fell from {one.base:.3g} to {one.candidate:.3g} ({chance}{several})."


def _notes(base: Sided, candidate: Sided, both: Shared, clustered: bool) -> Iterator[str]:
    if both.differing:
        left = len({*base.items, *candidate.items}) - len(both.keys)
        by = ", ".join(binding.spec.name for binding in both.bindings)
        yield f"Only what both runs share is compared: {pluralise(left, 'item')} left out; passing is judged by {by}."
    if base.run.repetitions != candidate.run.repetitions:
        yield "The runs made a different number of tries; the test takes as many of both, the first of each item."
    if clustered:
        yield "Items of one cluster count as one observation in the test and the interval."
    if base.run.deployment_id != candidate.run.deployment_id and not _clean(base, candidate):
        yield "A build with changes that are not committed is not identified by its commit."


def _clean(base: Sided, candidate: Sided) -> bool:
    return not any(side.build and side.build.endswith("(dirty)") for side in (base, candidate))
