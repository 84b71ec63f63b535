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

SHORT = 200
"""Maximum characters of an input or an output in a list of failures."""
EXPLAINED = 300
SHOWN_FLAKY = 10
MOST_K = 5


def summary_lines(report: RunReport) -> Iterator[str]:
    found = report.summary
    yield f"{found.experiment}, version {found.version}: run {found.label}"
    yield from origin_lines(found)
    yield f"pass rate  {found.pass_rate.said}{_of_scored(found)}"
    yield f"trials     {counts_line(found.counts)}"
    yield from _errors(found)
    yield from item_lines(found)
    yield from scorer_lines(found)
    yield from detail_lines(found)
    yield from gate_lines(report.gate)


FAILURES_SHOWN = 10
LOG_SHOWN = 8
"""Maximum lines of a traceback below a failure."""


def result_lines(report: RunReport, failed: Iterable[TrialDetail]) -> Iterator[str]:
    """Render the result of a run with its first failures, as `experiments run` prints it."""
    found = report.summary
    yield f"{found.experiment}, version {found.version}, on {found.dataset}: run {found.label}"
    if found.state != "completed":
        yield _state(found)
    yield f"pass rate  {found.pass_rate.said}{_of_scored(found)}"
    yield f"trials     {counts_line(found.counts)}"
    yield from _errors(found)
    yield from scorer_lines(found)
    if found.cost_usd:
        yield f"cost       {_cost(found)}"
    if report.gate is not None:
        stated = "" if report.gate.stated else " (no gate is set, so every item must pass)"
        yield f"gate       {'passed' if report.gate.passed else 'failed'}{stated}"
        for clause in report.gate.clauses:
            yield f"  {clause.verdict:<12} {clause.said}"
    shown = tuple(islice(different_failures(failed), FAILURES_SHOWN))
    for one in shown:
        yield ""
        yield from failure_lines(one, repeated=found.repetitions > 1)
        yield from (f"  {visible(line)}" for line in one.log.rstrip().splitlines()[-LOG_SHOWN:])
    more = found.counts.failed + found.counts.error + found.counts.unscored - len(shown)
    if more > 0:
        yield ""
        yield f"and {more:,} more that did not pass"


def different_failures(failed: Iterable[TrialDetail]) -> Iterator[TrialDetail]:
    """Yield the failures, but only one trial for each reason why a target gave no answer."""
    reasons = set()
    for one in failed:
        reason = None if one.error is None else error_reason(one.error)
        if reason is None or reason not in reasons:
            yield one
        reasons.add(reason)


def origin_lines(found: RunSummary) -> Iterator[str]:
    """Render what ran, on which dataset, and when."""
    yield _state(found)
    yield f"target     {target_line(found)}"
    yield f"dataset    {found.dataset} ({found.dataset_version_id}), {pluralise(found.items, 'item')}{_repeated(found)}"
    yield f"version    {found.experiment_version_id}"
    yield f"times      {_times(found)}"


def _state(found: RunSummary) -> str:
    return f"state      {found.state}{f' ({one_line(found.reason)})' if found.reason else ''}"


def target_line(found: RunSummary) -> str:
    """Render the target of the version, and the build that the run used instead of the target's, if any."""
    other = found.deployment_id if found.deployment_id and found.deployment_id not in found.target else None
    return f"{found.target}{f', run with {other}' if other else ''}"


def item_lines(found: RunSummary) -> Iterator[str]:
    """Render how many items failed and, if items were repeated, pass@k and pass^k."""
    yield f"failed     {pluralise(found.failed_items, 'item')} of {found.items:,}{_flaky(found)}"
    yield from (_at_k(found, one) for one in _some_k(found))


def detail_lines(found: RunSummary) -> Iterator[str]:
    """Render results by split and by label, and the cost."""
    yield from (f"split      {one.split}: {one.pass_rate.said}; {counts_line(one.counts)}" for one in found.splits)
    yield from _labels(found)
    yield f"cost       {_cost(found)}"


def gate_lines(gate: Gate | None) -> Iterator[str]:
    """Render one line per clause, and the criterion for passing."""
    if gate is None:
        return
    why = f": {one_line(gate.reason)}" if gate.reason else ""
    stated = "" if gate.stated else " (the experiment defines no gate: every item must pass)"
    yield f"gate       {'passed' if gate.passed else 'failed'}{why}{stated}"
    for clause in gate.clauses:
        yield f"  {clause.verdict:<12} {clause.name}: {clause.said}"
        if clause.luck:
            yield f"  {'':<12} {clause.luck}"
    yield f"  ({RULE})"


def scorer_lines(found: RunSummary) -> Iterator[str]:
    for number, one in enumerate(found.scorers):
        yield f"{'scorers' if number == 0 else '':<10} {scorer_line(one)}"


def scorer_line(one: ScorerSummary) -> str:
    """Render a scorer, such as `exact_match: 18/20 = 90.0 % (…), mean 0.900; 2 broke (input_error 2), 1 unscored`."""
    mean = "" if one.mean is None else f", mean {one.mean:.3f}"
    broke = ", ".join(f"{kind} {number:,}" for kind, number in one.errors.items())
    parts = [f"{sum(one.errors.values()):,} broke ({broke})"] if broke else []
    parts += [f"{one.unscored:,} unscored"] if one.unscored else []
    beside = f"; {', '.join(parts)}" if parts else ""
    return f"{one_line(one.scorer)}{'' if one.required else ' (not required)'}: {one.pass_rate.said}{mean}{beside}"


def counts_line(counts: TrialCounts) -> str:
    """Render counts, such as `18 passed, 1 failed, 1 error, 0 unscored`, and trials that did not run, if any."""
    told = f"{counts.passed:,} passed, {counts.failed:,} failed, {counts.error:,} error, {counts.unscored:,} unscored"
    return f"{told}, {counts.missing:,} not run" if counts.missing else told


def _errors(found: RunSummary) -> Iterator[str]:
    for number, line in enumerate(error_lines(found)):
        yield f"{'errors' if number == 0 else '':<10} {line}"


def error_lines(found: RunSummary, least: int = 1) -> Iterator[str]:
    """Yield the reasons why `least` or more trials got no answer: `10 of 10 trials raised NameError (agent.py:5)`."""
    for one in found.errors:
        if one.trials >= least:
            yield f"{one.trials:,} of {pluralise(found.tries, 'trial')} {one_line(one.reason)}"


def failure_lines(one: TrialDetail, *, repeated: bool) -> Iterator[str]:
    """Render input, expected output and output, shortened, and the scorers' explanations."""
    repetition = f" #{one.repetition}" if repeated else ""
    yield f"{one.verdict.upper()}  {one_line(one.item_key)}{repetition}  {one.run_item_id or ''}".rstrip()
    yield f"  input     {short_value(one.input)}"
    if one.expected_output is not None:
        yield f"  expected  {short_value(one.expected_output)}"
    yield (
        f"  error     {cut(one_line(one.error), SHORT)}"
        if one.error is not None
        else f"  output    {short_value(one.output)}"
    )
    yield from (f"  {score_line(score)}" for score in one.scores if explains_failure(score))


def explains_failure(score: Score) -> bool:
    """Return whether a score explains why a trial did not pass."""
    return score.status != "ok" or score.passed is False


def score_line(score: Score) -> str:
    """Render a score, such as `exact_match failed (0.00, mismatch): … [score-…]`."""
    parts = [score.error_type, None if score.value is None else f"{score.value:.2f}", score.label]
    parts += [] if score.required else ["not required"]
    detail = ", ".join(one_line(part) for part in parts if part)
    inside = f" ({detail})" if detail else ""
    return f"{one_line(score.scorer)} {word(score)}{inside}: {cut(one_line(score.explanation), EXPLAINED)} [{score.id}]"


def word(score: Score) -> str:
    """Return the outcome of a score in one word."""
    if score.status != "ok":
        return "broke" if score.status == "error" else "abstained"
    return "passed" if score.passed else "failed"


def short_value(value: JsonValue, limit: int = SHORT) -> str:
    return cut(one_line(text_of(value)), limit)


def text_of(value: JsonValue) -> str:
    """Render text unchanged and other values as canonical JSON.

    Expected output and output are compared side by side, and exports of the same run are identical.
    """
    return value if isinstance(value, str) else canonical_json(value)


def _repeated(found: RunSummary) -> str:
    return f" x {found.repetitions} repetitions" if found.repetitions > 1 else ""


def _times(found: RunSummary) -> str:
    """Render times, such as `created 2026-11-22 02:16:28, started 2026-11-22 02:16:31, ended not yet (UTC)`."""
    times = {"created": found.created_at, "started": found.started_at, "ended": found.ended_at}
    told = (f"{what} {moment[:19].replace('T', ' ') if moment else 'not yet'}" for what, moment in times.items())
    return f"{', '.join(told)} (UTC)"


def _of_scored(found: RunSummary) -> str:
    if found.rate_of_scored is None or found.counts.passed + found.counts.failed == found.tries:
        return ""
    return f"; of scored trials {percent(found.rate_of_scored)}"


def _flaky(found: RunSummary) -> str:
    if not found.flaky:
        return ""
    return f"; {len(found.flaky):,} flaky: {join_first([*map(one_line, found.flaky)], SHOWN_FLAKY)}"


def _some_k(found: RunSummary) -> Iterator[PassAtK]:
    yield from found.at_k[:MOST_K]
    yield from found.at_k[MOST_K:][-1:]


def _at_k(found: RunSummary, one: PassAtK) -> str:
    over = "" if one.items == found.items else f"   (of {pluralise(one.items, 'item')} with at least {one.k} trials)"
    return f"{f'pass@{one.k}':<10} {percent(one.pass_at)}   pass^{one.k} {percent(one.pass_hat)}{over}"


def _labels(found: RunSummary) -> Iterator[str]:
    if found.labels is None:
        return
    one = found.labels
    balanced = "none" if one.balanced_accuracy is None else f"{one.balanced_accuracy:.3f}"
    kappa = "none" if one.kappa is None else f"{one.kappa:.3f} (95 %: {one.kappa_low:.3f} to {one.kappa_high:.3f})"
    yield f"labels     {one.judged:,} of {one.pairs:,} trials labelled; balanced accuracy {balanced}, kappa {kappa}"
    for row in one.rows:
        given = ", ".join(f"{label} {count:,}" for label, count in row.given.items()) or "never expected"
        yield f"  {one_line(row.label)}: {one_line(given)}{_hit(row)}"


def _hit(row: LabelRow) -> str:
    """Render `; recall 0.95 of 37, precision 0.83`, omitting undefined values."""
    recall = "" if row.recall is None else f"; recall {row.recall:.2f} of {row.expected:,}"
    precision = "" if row.precision is None else f"{',' if recall else ';'} precision {row.precision:.2f}"
    return recall + precision


def _cost(found: RunSummary) -> str:
    parts = [dollars(found.cost_usd)]
    if found.input_tokens or found.output_tokens:
        parts.append(f"{found.input_tokens:,} tokens in, {found.output_tokens:,} out")
    if found.duration_p50_ms is not None and found.duration_p95_ms is not None:
        parts.append(
            f"a trial takes {found.duration_p50_ms:,.0f} ms, {found.duration_p95_ms:,.0f} ms at the 95th percentile"
        )
    return "; ".join(parts)


MOST_SHOWN = 50
"""Maximum changed items shown per kind of change; the JSON output has all of them."""
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


def comparison_lines(found: RunComparison) -> Iterator[str]:
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
        yield "To compare what both runs share, add --allow-mismatch."


def _rates(found: RunComparison) -> Iterator[str]:
    rows = [HEADS, _side("base", found.base), _side("candidate", found.candidate)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    judged = (
        f"{found.judged:,} of {pluralise(found.items, 'item')} judged in both ({percent(found.coverage)} of the trials)"
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
        yield from (f"    {name:<9}  {line}" for name, side in _sides(one) if (line := _change_line(side)))
    if len(items) > MOST_SHOWN:
        yield f"  and {len(items) - MOST_SHOWN:,} more, in --format json"


def _tries(one: ItemChange) -> str:
    if one.base.scored == one.candidate.scored == 1:
        return "passed, failed now" if one.base.passed else "failed, passes now"
    return f"passed {one.base.passed} of {one.base.scored}, now {one.candidate.passed} of {one.candidate.scored}"


def _sides(one: ItemChange) -> tuple[tuple[str, ItemSide], ...]:
    return ("base", one.base), ("candidate", one.candidate)


def _change_line(side: ItemSide) -> str:
    return " | ".join(one_line(part) for part in (side.output, side.said) if part)


def _several(found: Sequence[PassAtKPair]) -> Iterator[str]:
    if not found:
        return
    yield ""
    yield "of k trials one passes (pass@k) all pass (pass^k)"
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
