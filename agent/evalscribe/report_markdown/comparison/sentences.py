"""What the figures of a comparison mean, in plain sentences."""

from collections.abc import Iterator

from evalscribe.model.comparison import Comparison, MeanDifference
from evalscribe.report_markdown import inline
from evalscribe.text import pluralise

SURELY = 0.01
"""So that a second question about the same evals seldom raises a false alarm."""


def title(found: Comparison) -> str:
    worse, better = len(found.of("regressed")), len(found.of("fixed"))
    names = f"{inline.name(found.base.name)} → {inline.name(found.candidate.name)}"
    return f"# {names}: {worse} worse, {better} better of {pluralise(found.evals, 'eval')}"


def answer(found: Comparison) -> str:
    """Is it worse, by how much, is it noise, what could have been seen."""
    passes = found.passes
    if not passes.tasks or found.base.rate is None or found.candidate.rate is None:
        return "**Nothing can be compared: no eval was tried and judged on both sides.**"
    rates = f"{percent(found.base.rate)} → {percent(found.candidate.rate)}"
    interval = f"{points(passes.difference)}, 95 % interval {_interval(passes)}"
    return " ".join([f"**{_verdict(found)}: {rates}** ({interval}).", *_luck(found), _seen(passes, found.base.rate)])


def percent(rate: float) -> str:
    return f"{rate * 100:.1f} %"


def points(difference: float) -> str:
    """`-7.5 points`."""
    return f"{difference * 100:+.1f} points"


def times(p: float) -> str:
    """How often something comes by luck: `in 51 of 100 such comparisons`."""
    if p < 0.001:
        return "in fewer than 1 of 1,000"
    return f"in {p * 1000:.0f} of 1,000" if p < 0.095 else f"in {p * 100:.0f} of 100"


def _interval(found: MeanDifference) -> str:
    return f"{found.low * 100:+.1f} to {found.high * 100:+.1f}"


def _verdict(found: Comparison) -> str:
    passes = found.passes
    if passes.significant:
        return f"The candidate is {'better' if passes.difference > 0 else 'worse'}"
    if not passes.difference:
        return "No difference"
    return f"No difference beyond luck; it looks {'better' if passes.difference > 0 else 'worse'}"


def _luck(found: Comparison) -> Iterator[str]:
    passes = found.passes
    worse, better = len(found.of("regressed")), len(found.of("fixed"))
    if not worse + better:
        yield f"None of {pluralise(found.evals, 'eval')} changed."
        return
    changed = f"{worse + better} of {pluralise(found.evals, 'eval')} changed, {worse} worse and {better} better"
    so = f"sides that are equally good differ at least so much {times(passes.p)} comparisons"
    yield f"{changed}: {so}, so {'this is hardly luck' if passes.significant else 'the difference may well be luck'}."
    if not passes.significant and found.by_eval is not None and found.by_eval <= SURELY:
        yield (
            f"Yet single evals did change: sides that are equally good at each of them come that far "
            f"apart in their trials {times(found.by_eval)} comparisons."
        )


def _seen(passes: MeanDifference, base: float) -> str:
    if passes.detectable is None or passes.detectable > max(base, 1 - base):  # there is no room for so much
        return f"With {pluralise(passes.tasks, 'eval')} hardly any difference can be told from luck."
    return (
        f"With {pluralise(passes.tasks, 'eval')} a difference of {passes.detectable * 100:.0f} points is found "
        "in 80 of 100 comparisons, a smaller one more seldom."
    )
