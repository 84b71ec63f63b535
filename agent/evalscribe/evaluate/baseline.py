"""Clauses of a gate that look at another run: what it passed must pass still."""

from collections.abc import Iterator, Mapping

from evalscribe.ids import Frozen
from evalscribe.model.experiment import Clause, GateConfig
from evalscribe.text import join_first, one_line, pluralise

SHOWN = 5
"""Keys of items in the line of a clause; all are in `items`."""


class Baseline(Frozen):
    """The run that a gate compares with, as far as it can be."""

    run_id: str | None = None
    new_failures: tuple[str, ...] = ()
    """Keys of items that it passed and that fail now."""
    why_not: str | None = None
    """Why the two cannot be compared."""


def against(config: GateConfig, baselines: Mapping[str, Baseline]) -> Iterator[Clause]:
    """`baselines` by what the config calls them."""
    if config.no_new_failures_vs is not None:
        found = baselines.get(config.no_new_failures_vs, Baseline(why_not="it was not looked for"))
        yield _no_new_failures(config.no_new_failures_vs, found)
    if config.max_regressions is not None:
        named = config.baseline or config.no_new_failures_vs
        missing = Baseline(why_not="no baseline is named: set `baseline` in the experiment's config")
        yield _regressions(named, baselines.get(named or "", missing), config.max_regressions)


def _no_new_failures(named: str, found: Baseline) -> Clause:
    if found.why_not is not None:
        said = f"new failures against {one_line(named)} cannot be told: {found.why_not}"
        return Clause(name="no_new_failures_vs", threshold=named, verdict="inconclusive", said=said)
    return Clause(
        name="no_new_failures_vs",
        threshold=found.run_id or named,
        observed=float(len(found.new_failures)),
        verdict="failed" if found.new_failures else "passed",
        said=f"{_told(found)} against {one_line(named)}, none allowed{_keys(found)}",
        items=found.new_failures,
    )


def _regressions(named: str | None, found: Baseline, most: int) -> Clause:
    if found.why_not is not None:
        said = f"regressions{f' against {one_line(named)}' if named else ''} cannot be told: {found.why_not}"
        return Clause(name="max_regressions", threshold=float(most), verdict="inconclusive", said=said)
    number = len(found.new_failures)
    return Clause(
        name="max_regressions",
        threshold=float(most),
        observed=float(number),
        verdict="passed" if number <= most else "failed",
        said=f"{_told(found)} against {one_line(named or '')}, at most {most:,} allowed{_keys(found)}",
        items=found.new_failures,
    )


def _told(found: Baseline) -> str:
    return pluralise(len(found.new_failures), "new failure")


def _keys(found: Baseline) -> str:
    shown = join_first([*map(one_line, found.new_failures)], SHOWN)
    return f": {shown}" if shown else ""
