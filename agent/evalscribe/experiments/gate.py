"""Decide the gate of a finished run, clause by clause."""

from collections.abc import Iterator, Mapping
from math import ceil

from evalscribe.ids import Frozen
from evalscribe.model.experiment import (
    PREVIOUS,
    Clause,
    ClauseName,
    ClauseVerdict,
    Gate,
    GateConfig,
    PassRate,
    RunSummary,
    parse_bound,
    percent,
)
from evalscribe.statistics.intervals import passing_range, wilson_interval
from evalscribe.text import join_first, one_line, pluralise

SHOWN = 5
"""Maximum item keys in the text of a clause; its field `items` has all of them."""


class Baseline(Frozen):
    """Baseline that a gate compares with."""

    run_id: str | None = None
    new_failures: tuple[str, ...] = ()
    """Keys of items that passed in the baseline and fail now."""
    pass_rate: float | None = None
    why_not: str | None = None
    """Why the run cannot be compared with this baseline."""


def baseline_clauses(config: GateConfig, baselines: Mapping[str, Baseline]) -> Iterator[Clause]:
    """Decide the clauses that compare with baselines. `baselines` is keyed by their names in the config."""
    if config.no_new_failures_vs is not None:
        found = baselines.get(config.no_new_failures_vs, Baseline(why_not="it was not loaded"))
        yield _no_new_failures(config.no_new_failures_vs, found)
    if config.max_regressions is not None:
        yield _regressions(config.base, baselines.get(config.base or "", MISSING), config.max_regressions)


MISSING = Baseline(why_not="no baseline is named: set `baseline` in the experiment's config")


def _from_base(text: str, summary: RunSummary, named: str | None, found: Baseline) -> Clause:
    """Decide a `min_pass_rate` that is relative to the baseline's pass rate."""
    bound = parse_bound(text)
    if found.why_not is not None or found.pass_rate is None or bound is None:
        said = f"the pass rate {text} cannot be determined: {found.why_not or 'nothing was tried'}"
        return Clause(name="min_pass_rate", threshold=text, verdict="inconclusive", said=said)
    threshold = round(found.pass_rate + bound.number, 9)
    clause = _pass_rate("min_pass_rate", summary, threshold)
    required = f"at least {percent(threshold)} required ({one_line(text)}: {_run(named, found)} has "
    said = f"pass rate {summary.pass_rate.said}, {required}{percent(found.pass_rate)})"
    return clause.model_copy(update={"said": said})


def _run(named: str | None, found: Baseline) -> str:
    """Return the name of a baseline. For `previous`, which changes with every run, add the id."""
    return f"{PREVIOUS} ({found.run_id})" if named == PREVIOUS and found.run_id else one_line(named or "")


def _no_new_failures(named: str, found: Baseline) -> Clause:
    if found.why_not is not None:
        said = f"new failures against {one_line(named)} cannot be determined: {found.why_not}"
        return Clause(name="no_new_failures_vs", threshold=named, verdict="inconclusive", said=said)
    return Clause(
        name="no_new_failures_vs",
        threshold=found.run_id or named,
        observed=float(len(found.new_failures)),
        verdict="failed" if found.new_failures else "passed",
        said=f"{_told(found)} against {_run(named, found)}, none allowed{_keys(found)}",
        items=found.new_failures,
    )


def _regressions(named: str | None, found: Baseline, most: int) -> Clause:
    if found.why_not is not None:
        said = f"regressions{f' against {one_line(named)}' if named else ''} cannot be determined: {found.why_not}"
        return Clause(name="max_regressions", threshold=float(most), verdict="inconclusive", said=said)
    number = len(found.new_failures)
    return Clause(
        name="max_regressions",
        threshold=float(most),
        observed=float(number),
        verdict="passed" if number <= most else "failed",
        said=f"{_told(found)} against {_run(named, found)}, at most {most:,} allowed{_keys(found)}",
        items=found.new_failures,
    )


def _told(found: Baseline) -> str:
    return pluralise(len(found.new_failures), "new failure")


def _keys(found: Baseline) -> str:
    shown = join_first([*map(one_line, found.new_failures)], SHOWN)
    return f": {shown}" if shown else ""


DEFAULT = GateConfig(passed_threshold=1.0)
"""Gate of an experiment that defines no clauses."""
SLACK = 1e-9
"""Tolerance for floating-point errors, so that 18 of 20 reaches a threshold of 0.9."""


def decide_gate(config: GateConfig, summary: RunSummary, scores_digest: str, baselines: Mapping[str, Baseline]) -> Gate:
    """Decide the gate. Bounds are inclusive; a clause that cannot be decided does not pass.

    Args:
        baselines: Baselines by their names in the config.
    """
    found = tuple(_clauses(config, summary, baselines))
    clauses = found or tuple(_clauses(DEFAULT, summary, {}))
    reason = None if summary.state == "completed" else _ended(summary)
    return Gate(
        run_id=summary.run_id,
        passed=reason is None and all(clause.verdict == "passed" for clause in clauses),
        clauses=clauses,
        scores_digest=scores_digest,
        stated=bool(found),
        reason=reason,
    )


def headline(gate: Gate) -> str:
    """Summarise a gate on one line, with the clauses that did not pass.

    Example: `gate failed: pass rate 18/20 = 90.0 % (…), at least 95 % required`.
    """
    if gate.reason is not None:
        return f"gate not passed: {gate.reason}"
    worst = [clause.said for clause in gate.clauses if clause.verdict != "passed"]
    if not worst:
        return f"gate passed: {'; '.join(clause.said for clause in gate.clauses)}"
    return f"gate failed: {'; '.join(worst)}"


def _ended(summary: RunSummary) -> str:
    how = "was cancelled" if summary.state == "cancelled" else summary.state
    return f"the run {how}" + (f": {summary.reason}" if summary.reason else "")


def _clauses(config: GateConfig, summary: RunSummary, baselines: Mapping[str, Baseline]) -> Iterator[Clause]:
    if config.passed_threshold is not None:
        yield _pass_rate("passed_threshold", summary, config.passed_threshold)
    if config.min_pass_rate is not None:
        if isinstance(config.min_pass_rate, str):
            found = baselines.get(config.base or "", MISSING)
            yield _from_base(config.min_pass_rate, summary, config.base, found)
        else:
            yield _pass_rate("min_pass_rate", summary, config.min_pass_rate)
    if config.max_failed_items is not None:
        yield _failed_items(summary, config.max_failed_items)
    if config.min_pass_rate_lower_bound is not None:
        yield _lower_bound(summary, config.min_pass_rate_lower_bound)
    yield from baseline_clauses(config, baselines)
    if config.max_error_rate is not None:
        yield _errors(summary, config.max_error_rate)
    if config.min_scored_fraction is not None:
        yield _scored(summary, config.min_scored_fraction)
    yield from _labels(config, summary)


def _verdict(holds: bool) -> ClauseVerdict:
    return "passed" if holds else "failed"


def _of(name: ClauseName, share: PassRate, threshold: float, holds: bool, said: str) -> Clause:
    return Clause(
        name=name,
        threshold=threshold,
        observed=share.value,
        verdict=_verdict(holds) if share.value is not None else "inconclusive",
        low=share.low,
        high=share.high,
        said=said,
    )


def _pass_rate(name: ClauseName, summary: RunSummary, threshold: float) -> Clause:
    share = summary.pass_rate
    said = f"pass rate {share.said}, at least {_bound(threshold)} required"
    clause = _of(name, share, threshold, _at_least(share.value, threshold), said)
    return clause.model_copy(update={"luck": _luck(summary, threshold)})


def _luck(summary: RunSummary, threshold: float) -> str | None:
    """Describe how chance affects the pass rate of a run of this size."""
    number = summary.observations
    if not number or threshold <= 0:
        return None
    low, high = passing_range(ceil(threshold * number - SLACK), number)
    unit = "item" if number == summary.items else "cluster"
    return (
        f"with {pluralise(number, unit)}, a true pass rate of at least {percent(high)} passes in 8 of 10 runs, "
        f"and one below {percent(low)} fails in 8 of 10"
    )


def _bound(share: float) -> str:
    """Render a bound as written, such as `95 %`."""
    return f"{100 * share:g} %"


def _at_least(value: float | None, threshold: float) -> bool:
    return value is not None and value >= threshold - SLACK


def _failed_items(summary: RunSummary, most: int) -> Clause:
    said = f"{pluralise(summary.failed_items, 'failed item')} of {summary.items:,}, at most {most:,} allowed"
    said += " (an item fails when any of its trials did not pass)" if summary.repetitions > 1 else ""
    return Clause(
        name="max_failed_items",
        threshold=float(most),
        observed=float(summary.failed_items),
        verdict=_verdict(summary.failed_items <= most),
        said=said,
    )


def _lower_bound(summary: RunSummary, threshold: float) -> Clause:
    share = summary.pass_rate
    said = f"pass rate {share.said}: the lower bound must be at least {_bound(threshold)}"
    return _of("min_pass_rate_lower_bound", share, threshold, _at_least(share.low, threshold), said)


def _errors(summary: RunSummary, most: float) -> Clause:
    """Decide the error clause: errors of the target and of required scorers. Items that never ran do not count."""
    number = summary.counts.error + summary.broken
    share = _share(number, summary.tries)
    parts = f"{summary.counts.error:,} of the target, {summary.broken:,} of required scorers"
    holds = share.value is not None and share.value <= most + SLACK
    said = f"errors {share.said} of all trials ({parts}), at most {_bound(most)} allowed"
    return _of("max_error_rate", share, most, holds, said)


def _scored(summary: RunSummary, least: float) -> Clause:
    share = _share(summary.counts.passed + summary.counts.failed, summary.tries)
    said = f"trials with a verdict {share.said}, at least {_bound(least)} required"
    return _of("min_scored_fraction", share, least, _at_least(share.value, least), said)


def _share(number: int, tries: int) -> PassRate:
    low, high = wilson_interval(number, tries)
    return PassRate(passed=number, of=tries, value=number / tries if tries else None, low=low, high=high)


def _labels(config: GateConfig, summary: RunSummary) -> Iterator[Clause]:
    found = summary.labels
    if config.min_balanced_accuracy is not None:
        value = found.balanced_accuracy if found else None
        yield _agreement("min_balanced_accuracy", "balanced accuracy", value, config.min_balanced_accuracy)
    if config.min_kappa is not None:
        clause = _agreement("min_kappa", "kappa", found.kappa if found else None, config.min_kappa)
        yield clause.model_copy(update={"low": found.kappa_low, "high": found.kappa_high}) if found else clause


def _agreement(name: ClauseName, words: str, value: float | None, least: float) -> Clause:
    needed = f"at least {least:.2f} required"
    if value is None:
        said = f"{words} cannot be determined: no trial has both an expected and a given label; {needed}"
        return Clause(name=name, threshold=least, verdict="inconclusive", said=said)
    said = f"{words} {value:.3f}, {needed}"
    return Clause(name=name, threshold=least, observed=value, verdict=_verdict(_at_least(value, least)), said=said)
