"""One changed eval on the page of a comparison."""

from collections.abc import Iterator, Sequence

from evalscribe.comparison import Pair, Quote, Trial
from evalscribe.prose import one_line, prose
from evalscribe.report_markdown import inline

LONGEST_QUOTE = 300
MOST = 100
"""Evals that are told in full; further ones are named."""


def regressed(pairs: Sequence[Pair], *, trials: bool = False) -> Iterator[str]:
    """A part for each, then the names of those beyond `MOST`. `trials`: each is one try of its eval."""
    for pair in pairs[:MOST]:
        name = f"{pair.eval}#{pair.candidate[0].trial}" if trials else pair.eval
        yield from ("", f"### {inline.path(one_line(name))}", *one(pair))
    if len(pairs) > MOST:
        yield from ("", f"And {len(pairs) - MOST} more: {inline.paths(pair.eval for pair in pairs[MOST:])}.")


def one(pair: Pair) -> Iterator[str]:
    yield f"- Base {passed(pair.base)}; candidate {passed(pair.candidate)}"
    failed = next((trial for trial in pair.candidate if not trial.passed), None)
    yield from _failure(failed) if failed else ()
    if pair.why:
        yield f"- {'First difference' if pair.why.judge == 'rules' else 'Why'}: {prose(pair.why.text)}"
        yield from map(_quote, pair.why.quotes)


def passed(side: Sequence[Trial]) -> str:
    """`passed`, `failed`, or of several tries `passed 3 of 4`."""
    count = sum(trial.passed for trial in side)
    return ("passed" if count else "failed") if len(side) == 1 else f"passed {count} of {len(side)}"


def cause(trial: Trial) -> str:
    kind = f" ({trial.cause_kind})" if trial.cause_kind else ""
    return f"{inline.name(trial.cause)}{kind}" if trial.cause else ""


def _failure(failed: Trial) -> Iterator[str]:
    step = f" in {inline.name(one_line(failed.step))}" if failed.step else ""
    error = f": {inline.code(one_line(failed.error))}" if failed.error else ""
    if step or error:
        yield f"- Fails{step}{error}"
    if failed.cause:
        yield f"- Cause: {cause(failed)}"


def _quote(quote: Quote) -> str:
    mark = "" if quote.verified else "(unverified) "
    text = one_line(quote.text)
    short = text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 1] + "…"
    return f"  - {mark}{quote.side}, {inline.code(one_line(quote.place))}: {inline.code(short)}"
