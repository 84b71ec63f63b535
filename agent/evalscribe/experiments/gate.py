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

KEYS_SHOWN = 5
"""Maximum number of item keys in the text of a clause. The clause's field `items` has all keys."""


class Baseline(Frozen):
    """A baseline with which a gate compares the run."""

    run_id: str | None = None
    new_failures: tuple[str, ...] = ()
    """Keys of items that passed in the baseline but not in this run."""
    pass_rate: float | None = None
    why_not: str | None = None
    """Why the run cannot be compared with the baseline; None if they can be compared."""


def baseline_clauses(config: GateConfig, baselines: Mapping[str, Baseline]) -> Iterator[Clause]:
    """Decide the clauses that compare the run with a baseline.

    `baselines` maps each baseline's name in the config to the baseline.
    """
    if config.no_new_failures_vs is not None:
        baseline = baselines.get(config.no_new_failures_vs, Baseline(why_not="it was not loaded"))
        yield _no_new_failures(config.no_new_failures_vs, baseline)
    if config.max_regressions is not None:
        yield _regressions(config.base, baselines.get(config.base or "", MISSING), config.max_regressions)


MISSING = Baseline(why_not="no baseline is named: set `baseline` in the experiment's config")


def _from_base(text: str, summary: RunSummary, base_name: str | None, baseline: Baseline) -> Clause:
    """Decide a `min_pass_rate` that is relative to the baseline's pass rate."""
    bound = parse_bound(text)
    if baseline.why_not is not None or baseline.pass_rate is None or bound is None:
        message = f"the pass rate {text} cannot be determined: {baseline.why_not or 'nothing was tried'}"
        return Clause(name="min_pass_rate", threshold=text, verdict="inconclusive", said=message)
    # Rounded, because 0.95 - 0.02 is 0.9299999999999999 in floating-point numbers.
    threshold = round(baseline.pass_rate + bound.number, 9)
    clause = _pass_rate("min_pass_rate", summary, threshold)
    required = f"at least {percent(threshold)} required ({one_line(text)}: {_baseline_label(base_name, baseline)} has "
    message = f"pass rate {summary.pass_rate.text}, {required}{percent(baseline.pass_rate)})"
    return clause.model_copy(update={"said": message})


def _baseline_label(name: str | None, baseline: Baseline) -> str:
    """Return the name of a baseline."""
    # The run's id is added to `previous`, because `previous` stands for a different run each time.
    return f"{PREVIOUS} ({baseline.run_id})" if name == PREVIOUS and baseline.run_id else one_line(name or "")


def _no_new_failures(base_name: str, baseline: Baseline) -> Clause:
    if baseline.why_not is not None:
        message = f"new failures against {one_line(base_name)} cannot be determined: {baseline.why_not}"
        return Clause(name="no_new_failures_vs", threshold=base_name, verdict="inconclusive", said=message)
    return Clause(
        name="no_new_failures_vs",
        threshold=baseline.run_id or base_name,
        observed=float(len(baseline.new_failures)),
        verdict="failed" if baseline.new_failures else "passed",
        said=f"{_failure_count(base_name, baseline)}, none allowed{_key_list(baseline)}",
        items=baseline.new_failures,
    )


def _regressions(base_name: str | None, baseline: Baseline, maximum: int) -> Clause:
    if baseline.why_not is not None:
        against = f" against {one_line(base_name)}" if base_name else ""
        message = f"regressions{against} cannot be determined: {baseline.why_not}"
        return Clause(name="max_regressions", threshold=float(maximum), verdict="inconclusive", said=message)
    number = len(baseline.new_failures)
    return Clause(
        name="max_regressions",
        threshold=float(maximum),
        observed=float(number),
        verdict="passed" if number <= maximum else "failed",
        said=f"{_failure_count(base_name, baseline)}, at most {maximum:,} allowed{_key_list(baseline)}",
        items=baseline.new_failures,
    )


def _failure_count(base_name: str | None, baseline: Baseline) -> str:
    return f"{pluralise(len(baseline.new_failures), 'new failure')} against {_baseline_label(base_name, baseline)}"


def _key_list(baseline: Baseline) -> str:
    shown = join_first([*map(one_line, baseline.new_failures)], KEYS_SHOWN)
    return f": {shown}" if shown else ""


DEFAULT = GateConfig(passed_threshold=1.0)
"""Default gate, for experiments whose config has no clauses."""
SLACK = 1e-9
"""Tolerance for floating-point errors. With this tolerance, 18 of 20 reaches a threshold of 0.9."""


def decide_gate(config: GateConfig, summary: RunSummary, scores_digest: str, baselines: Mapping[str, Baseline]) -> Gate:
    """Decide the gate.

    A value that equals a bound satisfies the clause. A clause that cannot be decided does not pass.

    Args:
        baselines: The baselines, by their names in the config.
    """
    stated_clauses = tuple(_clauses(config, summary, baselines))
    clauses = stated_clauses or tuple(_clauses(DEFAULT, summary, {}))
    reason = None if summary.state == "completed" else _end_reason(summary)
    return Gate(
        run_id=summary.run_id,
        passed=reason is None and all(clause.verdict == "passed" for clause in clauses),
        clauses=clauses,
        scores_digest=scores_digest,
        stated=bool(stated_clauses),
        reason=reason,
    )


def headline(gate: Gate) -> str:
    """Summarise a gate on one line, naming the clauses that did not pass.

    Example: `gate failed: pass rate 18/20 = 90.0 % (…), at least 95 % required`.
    """
    if gate.reason is not None:
        return f"gate not passed: {gate.reason}"
    messages = [clause.said for clause in gate.clauses if clause.verdict != "passed"]
    if not messages:
        return f"gate passed: {'; '.join(clause.said for clause in gate.clauses)}"
    return f"gate failed: {'; '.join(messages)}"


def _end_reason(summary: RunSummary) -> str:
    state_text = "was cancelled" if summary.state == "cancelled" else summary.state
    return f"the run {state_text}" + (f": {summary.reason}" if summary.reason else "")


def _clauses(config: GateConfig, summary: RunSummary, baselines: Mapping[str, Baseline]) -> Iterator[Clause]:
    if config.passed_threshold is not None:
        yield _pass_rate("passed_threshold", summary, config.passed_threshold)
    if config.min_pass_rate is not None:
        if isinstance(config.min_pass_rate, str):
            baseline = baselines.get(config.base or "", MISSING)
            yield _from_base(config.min_pass_rate, summary, config.base, baseline)
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


def _share_clause(name: ClauseName, share: PassRate, threshold: float, holds: bool, message: str) -> Clause:
    return Clause(
        name=name,
        threshold=threshold,
        observed=share.value,
        verdict=_verdict(holds) if share.value is not None else "inconclusive",
        low=share.low,
        high=share.high,
        said=message,
    )


def _pass_rate(name: ClauseName, summary: RunSummary, threshold: float) -> Clause:
    share = summary.pass_rate
    message = f"pass rate {share.text}, at least {_bound(threshold)} required"
    clause = _share_clause(name, share, threshold, _at_least(share.value, threshold), message)
    return clause.model_copy(update={"luck": _chance_note(summary, threshold)})


def _chance_note(summary: RunSummary, threshold: float) -> str | None:
    """Describe which true pass rates would pass, and which would fail, in 8 of 10 runs of this size."""
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
    """Render a bound as a percentage, such as `95 %`."""
    return f"{100 * share:g} %"


def _at_least(value: float | None, threshold: float) -> bool:
    return value is not None and value >= threshold - SLACK


def _failed_items(summary: RunSummary, maximum: int) -> Clause:
    message = f"{pluralise(summary.failed_items, 'failed item')} of {summary.items:,}, at most {maximum:,} allowed"
    message += " (an item fails when any of its trials did not pass)" if summary.repetitions > 1 else ""
    return Clause(
        name="max_failed_items",
        threshold=float(maximum),
        observed=float(summary.failed_items),
        verdict=_verdict(summary.failed_items <= maximum),
        said=message,
    )


def _lower_bound(summary: RunSummary, threshold: float) -> Clause:
    share = summary.pass_rate
    message = f"pass rate {share.text}: the lower bound must be at least {_bound(threshold)}"
    return _share_clause("min_pass_rate_lower_bound", share, threshold, _at_least(share.low, threshold), message)


def _errors(summary: RunSummary, maximum: float) -> Clause:
    """Decide the clause about errors of the target and of required scorers. Trials that never ran are not errors."""
    number = summary.counts.error + summary.broken
    share = _share(number, summary.tries)
    parts = f"{summary.counts.error:,} of the target, {summary.broken:,} of required scorers"
    holds = share.value is not None and share.value <= maximum + SLACK
    message = f"errors {share.text} of all trials ({parts}), at most {_bound(maximum)} allowed"
    return _share_clause("max_error_rate", share, maximum, holds, message)


def _scored(summary: RunSummary, minimum: float) -> Clause:
    share = _share(summary.counts.passed + summary.counts.failed, summary.tries)
    message = f"trials with a verdict {share.text}, at least {_bound(minimum)} required"
    return _share_clause("min_scored_fraction", share, minimum, _at_least(share.value, minimum), message)


def _share(number: int, trials: int) -> PassRate:
    low, high = wilson_interval(number, trials)
    return PassRate(passed=number, of=trials, value=number / trials if trials else None, low=low, high=high)


def _labels(config: GateConfig, summary: RunSummary) -> Iterator[Clause]:
    labels = summary.labels
    if config.min_balanced_accuracy is not None:
        value = labels.balanced_accuracy if labels else None
        yield _agreement("min_balanced_accuracy", "balanced accuracy", value, config.min_balanced_accuracy)
    if config.min_kappa is not None:
        clause = _agreement("min_kappa", "kappa", labels.kappa if labels else None, config.min_kappa)
        yield clause.model_copy(update={"low": labels.kappa_low, "high": labels.kappa_high}) if labels else clause


def _agreement(name: ClauseName, metric: str, value: float | None, minimum: float) -> Clause:
    requirement = f"at least {minimum:.2f} required"
    if value is None:
        message = f"{metric} cannot be determined: no trial has both an expected and a given label; {requirement}"
        return Clause(name=name, threshold=minimum, verdict="inconclusive", said=message)
    message = f"{metric} {value:.3f}, {requirement}"
    return Clause(
        name=name, threshold=minimum, observed=value, verdict=_verdict(_at_least(value, minimum)), said=message
    )
