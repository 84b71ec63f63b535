"""One changed eval on the page of a comparison."""

from collections.abc import Iterator, Sequence

from evalscribe.model.comparison import EvalPair, Quote, Trial
from evalscribe.report_markdown import inline
from evalscribe.text import one_line, prose

LONGEST_QUOTE = 300
MOST = 100
"""Evals that are told in full; further ones are named."""


def regressed(pairs: Sequence[EvalPair], *, trials: bool = False) -> Iterator[str]:
    """A part for each, then the names of those beyond `MOST`. `trials`: each is one try of its eval."""
    for pair in pairs[:MOST]:
        name = f"{pair.eval}#{pair.candidate[0].trial}" if trials else pair.eval
        yield from ("", f"### {inline.path(one_line(name))}", _sides(pair, trials=trials), *_told(pair, trials=trials))
    if len(pairs) > MOST:
        yield from ("", f"And {len(pairs) - MOST} more: {inline.paths(pair.eval for pair in pairs[MOST:])}.")


def _sides(pair: EvalPair, *, trials: bool) -> str:
    if trials:
        return f"- Beside trial {pair.base[0].trial}, which passed"
    return f"- Base {passed(pair.base)}; candidate {passed(pair.candidate)}"


def _told(pair: EvalPair, *, trials: bool) -> Iterator[str]:
    failed = next((trial for trial in pair.candidate if not trial.passed), None)
    yield from _failure(failed) if failed else ()
    if why := pair.why:
        kind = f" ({why.kind})" if why.kind else ""
        yield f"- {'First difference' if why.judge == 'rules' else f'Why{kind}'}: {prose(why.text)}"
        names = {"base": "passed", "candidate": "failed"} if trials else {}
        yield from (_quote(quote, names.get(quote.side, quote.side)) for quote in why.quotes)


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


def _quote(quote: Quote, side: str) -> str:
    mark = "" if quote.verified else "(unverified) "
    text = one_line(quote.text)
    short = text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 1] + "…"
    return f"  - {mark}{side}, {inline.code(one_line(quote.place))}: {inline.code(short)}"
