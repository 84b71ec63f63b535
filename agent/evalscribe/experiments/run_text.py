"""Render runs of experiments, and comparisons of two runs, as text."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from pydantic import JsonValue

from evalscribe.experiments.summary import error_reason
from evalscribe.ids import canonical_json
from evalscribe.model.comparison import (
    ItemChange,
    ItemSide,
    PassAtKPair,
    RunComparison,
    RunSide,
    ScorerMovement,
    format_p_value,
)
from evalscribe.model.experiment import (
    RULE,
    Gate,
    LabelRow,
    PassAtK,
    RunReport,
    RunSummary,
    ScorerSummary,
    TrialCounts,
    TrialDetail,
    percent,
)
from evalscribe.model.score import Score
from evalscribe.text import cut, dollars, join_first, one_line, pluralise, visible

VALUE_LENGTH = 200
"""Maximum number of characters of an input or an output in a list of failures."""
EXPLANATION_LENGTH = 300
SHOWN_FLAKY = 10
MOST_K = 5


def summary_lines(report: RunReport) -> Iterator[str]:
    summary = report.summary
    yield f"{summary.experiment}, version {summary.version}: run {summary.label}"
    yield from origin_lines(summary)
    yield f"pass rate  {summary.pass_rate.text}{_of_scored(summary)}"
    yield f"trials     {counts_line(summary.counts)}"
    yield from _errors(summary)
    yield from item_lines(summary)
    yield from scorer_lines(summary)
    yield from detail_lines(summary)
    yield from gate_lines(report.gate)


FAILURES_SHOWN = 10
LOG_SHOWN = 8
"""Maximum number of lines of a traceback shown below a failure."""


def result_lines(report: RunReport, failed: Iterable[TrialDetail]) -> Iterator[str]:
    """Render the result of a run and its first failures, as `experiments run` prints them."""
    summary = report.summary
    yield f"{summary.experiment}, version {summary.version}, on {summary.dataset}: run {summary.label}"
    if summary.state != "completed":
        yield _state(summary)
    yield f"pass rate  {summary.pass_rate.text}{_of_scored(summary)}"
    yield f"trials     {counts_line(summary.counts)}"
    yield from _errors(summary)
    yield from scorer_lines(summary)
    if summary.cost_usd:
        yield f"cost       {_cost(summary)}"
    if report.gate is not None:
        stated = "" if report.gate.stated else " (no gate is set, so every item must pass)"
        yield f"gate       {'passed' if report.gate.passed else 'failed'}{stated}"
        for clause in report.gate.clauses:
            yield f"  {clause.verdict:<12} {clause.said}"
    shown = tuple(islice(different_failures(failed), FAILURES_SHOWN))
    for trial in shown:
        yield ""
        yield from failure_lines(trial, repeated=summary.repetitions > 1)
        yield from (f"  {visible(line)}" for line in trial.log.rstrip().splitlines()[-LOG_SHOWN:])
    more = summary.counts.failed + summary.counts.error + summary.counts.unscored - len(shown)
    if more > 0:
        yield ""
        yield f"and {more:,} more that did not pass"


def different_failures(failed: Iterable[TrialDetail]) -> Iterator[TrialDetail]:
    """Yield the failed trials.

    If several trials have no answer for the same reason, only the first of them is included.
    """
    reasons = set()
    for trial in failed:
        reason = None if trial.error is None else error_reason(trial.error)
        if reason is None or reason not in reasons:
            yield trial
        reasons.add(reason)


def origin_lines(summary: RunSummary) -> Iterator[str]:
    """Render the run's state, target, dataset, version and times."""
    yield _state(summary)
    yield f"target     {target_line(summary)}"
    items = f"{pluralise(summary.items, 'item')}{_repeated(summary)}"
    yield f"dataset    {summary.dataset} ({summary.dataset_version_id}), {items}"
    yield f"version    {summary.experiment_version_id}"
    yield f"times      {_times(summary)}"


def _state(summary: RunSummary) -> str:
    return f"state      {summary.state}{f' ({one_line(summary.reason)})' if summary.reason else ''}"


def target_line(summary: RunSummary) -> str:
    """Render the target of the version. If the run used a different build, add its id."""
    deployment_id = (
        summary.deployment_id if summary.deployment_id and summary.deployment_id not in summary.target else None
    )
    return f"{summary.target}{f', run with {deployment_id}' if deployment_id else ''}"


def item_lines(summary: RunSummary) -> Iterator[str]:
    """Render how many items failed. If the items were repeated, add pass@k and pass^k."""
    yield f"failed     {pluralise(summary.failed_items, 'item')} of {summary.items:,}{_flaky(summary)}"
    yield from (_at_k(summary, pass_at_k) for pass_at_k in _shown_at_k(summary))


def detail_lines(summary: RunSummary) -> Iterator[str]:
    """Render results by split and by label, and the cost."""
    yield from (
        f"split      {split.split}: {split.pass_rate.text}; {counts_line(split.counts)}" for split in summary.splits
    )
    yield from _labels(summary)
    yield f"cost       {_cost(summary)}"


def gate_lines(gate: Gate | None) -> Iterator[str]:
    """Render one line for each clause, and the criterion by which a trial passes."""
    if gate is None:
        return
    reason = f": {one_line(gate.reason)}" if gate.reason else ""
    stated = "" if gate.stated else " (the experiment defines no gate: every item must pass)"
    yield f"gate       {'passed' if gate.passed else 'failed'}{reason}{stated}"
    for clause in gate.clauses:
        yield f"  {clause.verdict:<12} {clause.name}: {clause.said}"
        if clause.luck:
            yield f"  {'':<12} {clause.luck}"
    yield f"  ({RULE})"


def scorer_lines(summary: RunSummary) -> Iterator[str]:
    for number, scorer in enumerate(summary.scorers):
        yield f"{'scorers' if number == 0 else '':<10} {scorer_line(scorer)}"


def scorer_line(scorer: ScorerSummary) -> str:
    """Render a scorer, such as `exact_match: 18/20 = 90.0 % (…), mean 0.900; 2 broke (input_error 2), 1 unscored`."""
    mean = "" if scorer.mean is None else f", mean {scorer.mean:.3f}"
    error_counts = ", ".join(f"{kind} {number:,}" for kind, number in scorer.errors.items())
    parts = [f"{sum(scorer.errors.values()):,} broke ({error_counts})"] if error_counts else []
    parts += [f"{scorer.unscored:,} unscored"] if scorer.unscored else []
    suffix = f"; {', '.join(parts)}" if parts else ""
    name = f"{one_line(scorer.scorer)}{'' if scorer.required else ' (not required)'}"
    return f"{name}: {scorer.pass_rate.text}{mean}{suffix}"


def counts_line(counts: TrialCounts) -> str:
    """Render counts, such as `18 passed, 1 failed, 1 error, 0 unscored`.

    If trials did not run, their number is added.
    """
    text = f"{counts.passed:,} passed, {counts.failed:,} failed, {counts.error:,} error, {counts.unscored:,} unscored"
    return f"{text}, {counts.missing:,} not run" if counts.missing else text


def _errors(summary: RunSummary) -> Iterator[str]:
    for number, line in enumerate(error_lines(summary)):
        yield f"{'errors' if number == 0 else '':<10} {line}"


def error_lines(summary: RunSummary, minimum: int = 1) -> Iterator[str]:
    """Yield a line for each reason why at least `minimum` trials got no answer.

    Example: `10 of 10 trials raised NameError (agent.py:5)`.
    """
    for error in summary.errors:
        if error.trials >= minimum:
            yield f"{error.trials:,} of {pluralise(summary.tries, 'trial')} {one_line(error.reason)}"


def failure_lines(trial: TrialDetail, *, repeated: bool) -> Iterator[str]:
    """Render a trial that did not pass, with the explanations of the scorers that did not pass the trial.

    The input, the expected output, and the output or error come first. Long values are shortened.
    """
    repetition = f" #{trial.repetition}" if repeated else ""
    yield f"{trial.verdict.upper()}  {one_line(trial.item_key)}{repetition}  {trial.run_item_id or ''}".rstrip()
    yield f"  input     {short_value(trial.input)}"
    if trial.expected_output is not None:
        yield f"  expected  {short_value(trial.expected_output)}"
    yield (
        f"  error     {cut(one_line(trial.error), VALUE_LENGTH)}"
        if trial.error is not None
        else f"  output    {short_value(trial.output)}"
    )
    yield from (f"  {score_line(score)}" for score in trial.scores if explains_failure(score))


def explains_failure(score: Score) -> bool:
    """Return whether a score is a reason why its trial did not pass."""
    return score.status != "ok" or score.passed is False


def score_line(score: Score) -> str:
    """Render a score, such as `exact_match failed (0.00, mismatch): … [score-…]`."""
    parts = [score.error_type, None if score.value is None else f"{score.value:.2f}", score.label]
    parts += [] if score.required else ["not required"]
    detail = ", ".join(one_line(part) for part in parts if part)
    detail_text = f" ({detail})" if detail else ""
    explanation = cut(one_line(score.explanation), EXPLANATION_LENGTH)
    return f"{one_line(score.scorer)} {word(score)}{detail_text}: {explanation} [{score.id}]"


def word(score: Score) -> str:
    """Return the outcome of a score as one word."""
    if score.status != "ok":
        return "broke" if score.status == "error" else "abstained"
    return "passed" if score.passed else "failed"


def short_value(value: JsonValue, limit: int = VALUE_LENGTH) -> str:
    return cut(one_line(text_of(value)), limit)


def text_of(value: JsonValue) -> str:
    """Render text unchanged, and other values as canonical JSON."""
    # With canonical JSON, output and expected output can be compared by eye, and two exports of a run are identical.
    return value if isinstance(value, str) else canonical_json(value)


def _repeated(summary: RunSummary) -> str:
    return f" x {summary.repetitions} repetitions" if summary.repetitions > 1 else ""


def _times(summary: RunSummary) -> str:
    """Render the times of a run: `created 2026-11-22 02:16:28, started 2026-11-22 02:16:31, ended not yet (UTC)`."""
    times = {"created": summary.created_at, "started": summary.started_at, "ended": summary.ended_at}
    parts = (f"{label} {moment[:19].replace('T', ' ') if moment else 'not yet'}" for label, moment in times.items())
    return f"{', '.join(parts)} (UTC)"


def _of_scored(summary: RunSummary) -> str:
    if summary.rate_of_scored is None or summary.counts.passed + summary.counts.failed == summary.tries:
        return ""
    return f"; of scored trials {percent(summary.rate_of_scored)}"


def _flaky(summary: RunSummary) -> str:
    if not summary.flaky:
        return ""
    return f"; {len(summary.flaky):,} flaky: {join_first([*map(one_line, summary.flaky)], SHOWN_FLAKY)}"


def _shown_at_k(summary: RunSummary) -> Iterator[PassAtK]:
    yield from summary.at_k[:MOST_K]
    yield from summary.at_k[MOST_K:][-1:]


def _at_k(summary: RunSummary, pass_at_k: PassAtK) -> str:
    note = (
        ""
        if pass_at_k.items == summary.items
        else f"   (of {pluralise(pass_at_k.items, 'item')} with at least {pass_at_k.k} trials)"
    )
    pass_hat = f"pass^{pass_at_k.k} {percent(pass_at_k.pass_hat)}"
    return f"{f'pass@{pass_at_k.k}':<10} {percent(pass_at_k.pass_at)}   {pass_hat}{note}"


def _labels(summary: RunSummary) -> Iterator[str]:
    if summary.labels is None:
        return
    labels = summary.labels
    balanced = "none" if labels.balanced_accuracy is None else f"{labels.balanced_accuracy:.3f}"
    kappa = (
        "none"
        if labels.kappa is None
        else f"{labels.kappa:.3f} (95 %: {labels.kappa_low:.3f} to {labels.kappa_high:.3f})"
    )
    labelled = f"{labels.judged:,} of {labels.pairs:,} trials labelled"
    yield f"labels     {labelled}; balanced accuracy {balanced}, kappa {kappa}"
    for row in labels.rows:
        label_counts = ", ".join(f"{label} {count:,}" for label, count in row.predicted.items()) or "never expected"
        yield f"  {one_line(row.label)}: {one_line(label_counts)}{_recall_text(row)}"


def _recall_text(row: LabelRow) -> str:
    """Render recall and precision, such as `; recall 0.95 of 37, precision 0.83`. Undefined values are left out."""
    recall = "" if row.recall is None else f"; recall {row.recall:.2f} of {row.expected:,}"
    precision = "" if row.precision is None else f"{',' if recall else ';'} precision {row.precision:.2f}"
    return recall + precision


def _cost(summary: RunSummary) -> str:
    parts = [dollars(summary.cost_usd)]
    if summary.input_tokens or summary.output_tokens:
        parts.append(f"{summary.input_tokens:,} tokens in, {summary.output_tokens:,} out")
    if summary.duration_p50_ms is not None and summary.duration_p95_ms is not None:
        parts.append(
            f"a trial takes {summary.duration_p50_ms:,.0f} ms, {summary.duration_p95_ms:,.0f} ms at the 95th percentile"
        )
    return "; ".join(parts)


MOST_SHOWN = 50
"""Maximum number of changed items shown for each kind of change. The JSON output has all changed items."""
HEADINGS = (
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


def comparison_lines(comparison: RunComparison) -> Iterator[str]:
    yield one_line(comparison.summary)
    yield from (f"! {one_line(warning)}" for warning in comparison.warnings)
    if comparison.passes is None:
        yield from _not_compared(comparison)
        return
    yield ""
    yield from _rates(comparison)
    yield from _scorers(comparison.scorers)
    yield from _changed("regressed", comparison.regressed)
    yield from _changed("fixed", comparison.fixed)
    yield from _changed("flaky", comparison.flaky)
    yield from _pass_at_k_lines(comparison.several)
    yield from _note_lines(comparison)


def _not_compared(comparison: RunComparison) -> Iterator[str]:
    if comparison.verdict == "not-comparable":
        yield "To compare what both runs share, add --allow-mismatch."


def _rates(comparison: RunComparison) -> Iterator[str]:
    rows = [HEADINGS, _side("base", comparison.base), _side("candidate", comparison.candidate)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    coverage_text = f"{comparison.judged:,} of {pluralise(comparison.items, 'item')} judged in both"
    clusters = f", {pluralise(comparison.clusters, 'independent observation')}" if comparison.clusters else ""
    yield f"{coverage_text} ({percent(comparison.coverage)} of the trials){clusters}"


def _side(role: str, side: RunSide) -> Sequence[str]:
    counts = (side.passed, side.failed, side.errors, side.unscored, side.missing)
    rates = ("none" if rate is None else percent(rate) for rate in (side.rate, side.rate_of_scored))
    names = (role, one_line(side.name or side.run_id), one_line(side.experiment), side.build or "")
    return (*names, *(f"{count:,}" for count in counts), *rates)


def _scorers(scorers: Sequence[ScorerMovement]) -> Iterator[str]:
    if not scorers:
        return
    yield ""
    correction = f" (p corrected for {len(scorers)})" if len(scorers) > 1 else ""
    yield f"scorers{correction}"
    yield from (f"  {_scorer(scorer)}" for scorer in scorers)


def _scorer(scorer: ScorerMovement) -> str:
    values = (
        (percent(scorer.base), percent(scorer.candidate))
        if scorer.kind == "passed"
        else (f"{scorer.base:.3f}", f"{scorer.candidate:.3f}")
    )
    name = f"{one_line(scorer.name)}{'' if scorer.required else ' (not required)'}"
    broken = f"; {scorer.broken[0]:,} and {scorer.broken[1]:,} broke or abstained" if any(scorer.broken) else ""
    movement = f"{scorer.fell:,} fell, {scorer.rose:,} rose of {pluralise(scorer.effect.tasks, 'item')}"
    p_value = format_p_value(scorer.effect.p, exact=scorer.effect.exact)
    return f"{name}: {values[0]} to {values[1]}, {p_value}; {movement}{broken}"


def _changed(kind: str, items: Sequence[ItemChange]) -> Iterator[str]:
    if not items:
        return
    yield ""
    yield f"{kind} ({len(items):,})"
    for change in items[:MOST_SHOWN]:
        yield f"  {one_line(change.item)}: {_tries(change)}"
        yield from (f"    {name:<9}  {line}" for name, side in _sides(change) if (line := _change_line(side)))
    if len(items) > MOST_SHOWN:
        yield f"  and {len(items) - MOST_SHOWN:,} more, in --format json"


def _tries(change: ItemChange) -> str:
    if change.base.scored == change.candidate.scored == 1:
        return "passed, failed now" if change.base.passed else "failed, passes now"
    base, candidate = change.base, change.candidate
    return f"passed {base.passed} of {base.scored}, now {candidate.passed} of {candidate.scored}"


def _sides(change: ItemChange) -> tuple[tuple[str, ItemSide], ...]:
    return ("base", change.base), ("candidate", change.candidate)


def _change_line(side: ItemSide) -> str:
    return " | ".join(one_line(part) for part in (side.output, side.explanation) if part)


def _pass_at_k_lines(pairs: Sequence[PassAtKPair]) -> Iterator[str]:
    if not pairs:
        return
    yield ""
    yield "of k trials one passes (pass@k) all pass (pass^k)"
    for pair in pairs:
        any, every = (f"{percent(base)} to {percent(candidate)}" for base, candidate in (pair.any, pair.every))
        yield f"  k = {pair.k:<6} {any:<20} {every}"


def _note_lines(comparison: RunComparison) -> Iterator[str]:
    lines = [*comparison.mismatches, *comparison.notes]
    if comparison.noise is not None:
        lines.insert(0, f"A/A: flip rate {percent(comparison.noise)} is this experiment's noise floor.")
    if lines:
        yield ""
    yield from map(one_line, lines)
