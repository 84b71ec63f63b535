"""Render comparisons as markdown and CSV."""

import csv
import io
from collections.abc import Iterator, Sequence

from evalscribe.collections.regressions import IN_REPORT
from evalscribe.ids import model_folder
from evalscribe.model.comparison import (
    Behaviour,
    Comparison,
    ComparisonSide,
    EvalPair,
    ExcludedEval,
    Matrix,
    MatrixColumn,
    MatrixRow,
    MeanDifference,
    Quote,
    Trial,
    WithinRunComparison,
)
from evalscribe.reports import documents, inline
from evalscribe.reports.page import inline_words
from evalscribe.text import join_first, one_line, pluralise, prose

COMPARISON_KIND = "evalscribe-compare/1"


def document(
    base: Sequence[str],
    candidate: Sequence[str],
    judge: str | None,
    lines: Sequence[str],
    pairs: Sequence[EvalPair] = (),
) -> str:
    """Render the front matter and the lines of a comparison page.

    `base` and `candidate` are the run ids of the sides.
    """
    worse = [pair for pair in pairs if pair.change == "regressed"] if judge else []
    facts = {
        "base": list(base),
        "candidate": list(candidate),
        "judge": judge,
        # An earlier page on which the judge answered more of these questions is not overwritten.
        documents.NOT_ANSWERED: sum(pair.why is None or pair.why.result is None for pair in worse),
    }
    return documents.document(COMPARISON_KIND, facts, lines)


def same_runs(text: str, other: str) -> bool:
    """Return whether two pages compare the same runs, according to their front matter."""
    return documents.same_facts(text, other, ("base", "candidate"))


SINGLE_EVAL_SIGNIFICANCE = 0.01
"""Significance level for changes of single evals. It is low because it belongs to a second test on the same evals."""


def title(comparison: Comparison) -> str:
    base, candidate = (f"{inline.name(one_line(side.name))}" for side in (comparison.base, comparison.candidate))
    experiments = [
        inline.paths(one_line(name) for name in side.experiments) for side in (comparison.base, comparison.candidate)
    ]
    if comparison.experiments_differ:
        base, candidate = f"{base} (experiment {experiments[0]})", f"{candidate} (experiment {experiments[1]})"
    return f"# {base} → {candidate}: {_changes(comparison)} of {pluralise(comparison.evals, 'eval')}"


def _changes(comparison: Comparison) -> str:
    worse, better = len(comparison.of("regressed")), len(comparison.of("fixed"))
    if any(len(side) > 1 for pair in comparison.pairs for side in (pair.base, pair.candidate)):
        return f"{worse} worse, {better} better"  # with several trials per eval, a worse eval is not necessarily broken
    return f"{worse} broke, {better} fixed"


def answer(comparison: Comparison) -> str:
    """Render the answer: which evals changed, by how much, and whether chance can explain the difference."""
    passes = comparison.passes
    if not passes.tasks or comparison.base.rate is None or comparison.candidate.rate is None:
        return "**Nothing can be compared: no eval was tried and judged on both sides.**"
    rates = f"{percent(comparison.base.rate)} → {percent(comparison.candidate.rate)}"
    interval = f"{points(passes.difference)}, 95 % interval {_interval(passes)}"
    return " ".join([f"**{verdict(comparison)}** ({rates}, {interval}).", *chance(comparison)])


def percent(rate: float) -> str:
    return f"{rate * 100:.1f} %"


def points(difference: float) -> str:
    """Render a difference in percentage points, such as `-7.5 points`."""
    return f"{difference * 100:+.1f} points"


def times(p: float) -> str:
    """Render a p-value as a frequency, such as `in 51 of 100`."""
    if p < 0.001:
        return "in fewer than 1 of 1,000"
    # Below 0.095, a frequency out of 100 would have only one digit.
    return f"in {p * 1000:.0f} of 1,000" if p < 0.095 else f"in {p * 100:.0f} of 100"


def _interval(difference: MeanDifference) -> str:
    return f"{difference.low * 100:+.1f} to {difference.high * 100:+.1f}"


def verdict(comparison: Comparison) -> str:
    """Return a few words that say whether the candidate is better than the base."""
    passes = comparison.passes
    changed = bool(comparison.of("regressed") or comparison.of("fixed"))
    if not passes.difference:
        return (
            f"Same pass rate, different evals: {_changes(comparison)}" if changed else "Same pass rate, no eval changed"
        )
    if passes.significant:
        return f"{'Better' if passes.difference > 0 else 'Worse'}: {_changes(comparison)}"
    return f"{'Higher' if passes.difference > 0 else 'Lower'} pass rate, which may be chance: {_changes(comparison)}"


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def chance(comparison: Comparison) -> Iterator[str]:
    """Yield a sentence on how often chance alone makes a difference this large, and on the smallest detectable one.

    If single evals changed more than chance explains, a second sentence says so.
    """
    passes = comparison.passes
    base, evals = comparison.base.rate or 0.0, pluralise(passes.tasks, "eval")
    if passes.detectable is None or passes.detectable > max(base, 1 - base):  # no pass rate can change by that much
        power_text = f"{evals} {'is' if passes.tasks == 1 else 'are'} too few to show any difference reliably"
    else:
        points = f"{passes.detectable * 100:.0f} points"
        power_text = f"with {evals}, only a difference of {points} or more is detected reliably"
    if comparison.of("regressed") or comparison.of("fixed"):
        frequency = f"{times(passes.p)} comparisons ({p_value(passes.p)})"
        yield f"Chance alone makes a difference of at least this size {frequency}; {power_text}."
    else:
        yield f"{power_text[0].upper()}{power_text[1:]}."
    if not passes.significant and comparison.by_eval is not None and comparison.by_eval <= SINGLE_EVAL_SIGNIFICANCE:
        yield f"Single evals changed more than chance explains ({p_value(comparison.by_eval)})."


LONGEST_QUOTE = 300
MOST = 100
"""Maximum number of evals that are shown with details. For further evals, only the names are shown."""


def regressed(pairs: Sequence[EvalPair], *, trials: bool = False) -> Iterator[str]:
    """Render a section for each of the first `MOST` regressed evals, then the names of the remaining evals.

    Args:
        trials: True if each pair stands for a single failed trial rather than for an eval.
    """
    for pair in pairs[:MOST]:
        name = f"{pair.eval}#{pair.candidate[0].trial}" if trials else pair.eval
        yield from (
            "",
            f"### {inline.printed_path(one_line(name))}",
            _trials_of_sides(pair, trials=trials),
            *_pair_lines(pair, trials=trials),
        )
    if len(pairs) > MOST:
        yield from ("", f"And {len(pairs) - MOST} more: {inline.paths(pair.eval for pair in pairs[MOST:])}.")


def _trials_of_sides(pair: EvalPair, *, trials: bool) -> str:
    if trials:
        return f"- Beside trial {pair.base[0].trial}, which passed"
    return f"- Base {passed(pair.base)}; candidate {passed(pair.candidate)}"


def _pair_lines(pair: EvalPair, *, trials: bool) -> Iterator[str]:
    failed = next((trial for trial in pair.candidate if not trial.passed), None)
    yield from _failure(failed) if failed else ()
    if explanation := pair.why:
        kind = f" ({explanation.kind})" if explanation.kind else ""
        yield f"- {'First difference' if explanation.judge == 'rules' else f'Why{kind}'}: {prose(explanation.text)}"
        names = {"base": "passed", "candidate": "failed"} if trials else {}
        yield from (_quote(quote, names.get(quote.side, quote.side)) for quote in explanation.quotes)


def passed(side: Sequence[Trial]) -> str:
    """Render the result of one trial as `passed` or `failed`, and that of several as `passed 3 of 4`."""
    count = sum(trial.passed for trial in side)
    return ("passed" if count else "failed") if len(side) == 1 else f"passed {count} of {len(side)}"


def cause(trial: Trial) -> str:
    """Return why a trial failed, in the words of its report, followed by the kind of cause in parentheses."""
    kind = f" ({trial.cause_kind})" if trial.cause_kind else ""
    reason = prose(trial.why) if trial.why else inline_words(one_line(trial.cause or ""))
    return f"{reason}{kind}" if reason else ""


def _failure(failed: Trial) -> Iterator[str]:
    step = f" in {inline.name(one_line(failed.step))}" if failed.step else ""
    error = f": {inline.code(one_line(failed.error))}" if failed.error else ""
    if step or error:
        yield f"- Fails{step}{error}"
    if failed.cause:
        yield f"- Why: {cause(failed)}"


def _quote(quote: Quote, side: str) -> str:
    mark = "" if quote.verified else "(unverified) "
    text = one_line(quote.text)
    short = text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 1] + "…"
    return f"  - {mark}{side}, {inline.code(one_line(quote.place))}: {inline.code(short)}"


TITLES = {
    "changed": "Task or grader changed in between",
    "not-judged": "Not counted: on one side no trial was judged",
    "only-base": "Only in the base",
    "only-candidate": "Only in the candidate",
}
MOST_NAMES = 200
MOST_BEHAVIOURS = 3


def comparison_page(comparison: Comparison) -> str:
    lines = [title(comparison), "", answer(comparison), *_summary(comparison), "", *_sides(comparison)]
    parts = (
        _section("What changed", _behaviours(comparison.behaviours)),
        _section("Changes by category", _categories(comparison)),
        _section("Scores", _scores(comparison)),
        _section("Regressed", regressed(comparison.of("regressed"))),
        _section("Fixed", _fixed(comparison.of("fixed"))),
        _section("Fails in both", _causes(comparison)),
        _section("Left out", _excluded(comparison.apart)),
        _section("Limits", (f"- {prose(note)}" for note in comparison.notes)),
    )
    lines += [line for part in parts for line in part]
    return document(comparison.base.runs, comparison.candidate.runs, comparison.judge, lines, comparison.pairs)


def _section(title: str, lines: Iterator[str]) -> list[str]:
    content = list(lines)
    return ["", f"## {title}", *content] if content else []


def _summary(comparison: Comparison) -> Iterator[str]:
    behaviours = [behaviour for behaviour in comparison.behaviours if behaviour.explained]
    parts = [f"{_behaviour(behaviour)} ({len(behaviour.evals)})" for behaviour in behaviours[:MOST_BEHAVIOURS]]
    if parts:
        more = len(behaviours) - len(parts)
        yield f"Behind what got worse: {', '.join(parts)}{f' and {more} more' if more > 0 else ''}."
    left_out = [f"{len(comparison.apart)}, listed below"] if comparison.apart else []
    left_out += [f"{comparison.incomplete} that never completed"] if comparison.incomplete else []
    if left_out:
        yield f"Left out of the figures: {' and '.join(left_out)}."
    both_failed = comparison.of("both-failed")
    if both_failed:
        other = sum(pair.cause_changed for pair in both_failed)
        moved = f", {other} for a different reason than before" if other else ""
        yield f"Fails in both: {pluralise(len(both_failed), 'eval')}{moved}."
    unexplained = [side for side in (comparison.base, comparison.candidate) if side.unexplained]
    if unexplained:
        runs = [inline.code(one_line(f"evalscribe analyze {run}")) for side in unexplained for run in side.unexplained]
        yield f"Some failures have no known cause yet: run {join_first(runs, MOST_BEHAVIOURS)}, then compare again."


def _sides(comparison: Comparison) -> Iterator[str]:
    yield from ("| | Base | Candidate |", "|---|---|---|")
    sides = (comparison.base, comparison.candidate)
    models = ("/".join(model_folder(side.provider, side.model)) for side in sides)
    yield f"| Model | {' | '.join(inline.cell(inline.name(one_line(model))) for model in models)} |"
    yield f"| Runs | {' | '.join(inline.cell(_runs(side)) for side in sides)} |"
    yield f"| Experiment | {' | '.join(inline.cell(inline.paths(side.experiments)) for side in sides)} |"
    yield f"| Passed, of compared trials | {' | '.join(f'{side.passed} of {side.trials}' for side in sides)} |"


def _runs(side: ComparisonSide) -> str:
    names = ", ".join(inline.code(one_line(run)) for run in side.runs[:5])
    return names + (f" and {len(side.runs) - 5} more" if len(side.runs) > 5 else "")


def _behaviours(behaviours: Sequence[Behaviour]) -> Iterator[str]:
    for behaviour in behaviours:
        text = f", {prose(behaviour.text)}" if behaviour.text else ""
        yield f"- {_behaviour(behaviour)}{text} ({len(behaviour.evals)}): {_list_names(behaviour.evals)}"


def _behaviour(behaviour: Behaviour) -> str:
    # Only a name that was taken from a report is prose. Other names come from evidence or a judge and are printed
    # literally.
    return prose(behaviour.name) if behaviour.text.startswith(IN_REPORT) else inline.name(one_line(behaviour.name))


def _categories(comparison: Comparison) -> Iterator[str]:
    if not comparison.categories:
        return
    rates = comparison.categories[0].base is not None
    yield f"| Category | {'Evals | Base | Candidate' if rates else 'Evals that failed somewhere'} | Worse | Better |"
    yield f"|---|{'--:|--:|--:' if rates else '--:'}|--:|--:|"
    for category in comparison.categories:
        cells = [
            f"{category.evals}",
            *([percent(rate) for rate in (category.base, category.candidate) if rate is not None]),
        ]
        name = inline.cell(inline.name(one_line(category.category) or "none"))
        yield f"| {name} | {' | '.join(cells)} | {category.regressed} | {category.fixed} |"
    significant = [category for category in comparison.categories if category.p <= 0.05]
    for category in significant:
        name = inline.name(one_line(category.category) or "none")
        yield f"\n{name} alone differs more than chance explains ({times(category.p)}, all categories considered)."
    if not significant:
        yield "\nNo category alone differs more than chance explains."


def _scores(comparison: Comparison) -> Iterator[str]:
    if not comparison.scores:
        return
    yield from ("| Score | Base | Candidate | Difference | 95 % interval | By chance |", "|---|--:|--:|--:|---|---|")
    for score in comparison.scores:
        figures = (f"{score.base:.3f}", f"{score.candidate:.3f}", f"{score.effect.difference:+.3f}")
        interval = f"{score.effect.low:+.3f} to {score.effect.high:+.3f}"
        name = inline.cell(inline.name(one_line(score.name)))
        yield f"| {name} | {' | '.join(figures)} | {interval} | {times(score.effect.p)} |"


def _causes(comparison: Comparison) -> Iterator[str]:
    """List the evals that fail on both sides, grouped by reason.

    Evals that fail for different reasons on the two sides come last.
    """
    by_reason: dict[str, list[str]] = {}
    for pair in comparison.of("both-failed"):
        base_cause, candidate_cause = (cause(failed) if failed else "" for failed in pair.first_failures)
        reasons = (
            f"{base_cause} → {candidate_cause}"
            if pair.cause_changed
            else candidate_cause or base_cause or "no reason known"
        )
        by_reason.setdefault(reasons, []).append(pair.eval)
    for reasons, names in sorted(by_reason.items(), key=lambda item: " → " in item[0]):
        yield f"- {reasons}: {_list_names(names)}"


def _excluded(excluded: Sequence[ExcludedEval]) -> Iterator[str]:
    for reason, heading in TITLES.items():
        evals = [item for item in excluded if item.reason == reason]
        if evals and reason.startswith("only"):
            yield f"- {heading} ({len(evals)}): {_list_names([item.eval for item in evals])}"
        elif evals:
            details = dict.fromkeys(item.detail for item in evals)
            yield f"- {heading} ({len(evals)}):"
            for detail in list(details)[:MOST_NAMES]:
                yield f"  - {prose(detail)}: {_list_names([item.eval for item in evals if item.detail == detail])}"


def _fixed(pairs: Sequence[EvalPair]) -> Iterator[str]:
    """List the evals that got better.

    An eval that still fails in some trials is listed with its number of passed trials before and after.
    """
    always = [pair for pair in pairs if all(trial.passed for trial in pair.candidate)]
    if always:
        yield _list_names([pair.eval for pair in always])
    for pair in pairs:
        if pair not in always:
            name = inline.printed_path(one_line(pair.eval))
            yield f"- {name} passes more often, but not always: {passed(pair.base)}, then {passed(pair.candidate)}"


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return inline.paths(one_line(name) for name in names[:MOST_NAMES]) + more


def within_page(comparison: WithinRunComparison) -> str:
    lines = [_title_within(comparison), "", _answer_within(comparison)]
    if comparison.behaviours:
        lines += ["", "## What failed trials do differently", *_behaviours_within(comparison)]
    if comparison.pairs:
        lines += ["", "## Failed trials", *regressed(comparison.pairs, trials=True)]
    if comparison.without:
        lines += ["", "## Never passed", f"Nothing to compare with: {inline.paths(map(one_line, comparison.without))}."]
    if comparison.notes:
        lines += ["", "## Limits", *(f"- {prose(note)}" for note in comparison.notes)]
    return document(comparison.side.runs, comparison.side.runs, comparison.judge, lines, comparison.pairs)


def _title_within(comparison: WithinRunComparison) -> str:
    trials = pluralise(len(comparison.pairs), "failed trial")
    return f"# {inline.name(comparison.side.name)}: {trials} beside one that passed"


def _answer_within(comparison: WithinRunComparison) -> str:
    tasks = len({pair.eval for pair in comparison.pairs})
    failed = comparison.side.trials - comparison.side.passed
    never_passed_text = f"; {pluralise(len(comparison.without), 'eval')} never passed" if comparison.without else ""
    return (
        f"**{comparison.side.passed} of {pluralise(comparison.side.trials, 'trial')} passed.** "
        f"Of the {failed} failed trials, {len(comparison.pairs)} belong to "
        f"{pluralise(tasks, 'eval')} that also passed{never_passed_text}."
    )


def _behaviours_within(comparison: WithinRunComparison) -> Iterator[str]:
    for behaviour in comparison.behaviours:
        text = f", {prose(behaviour.text)}" if behaviour.text else ""
        names = dict.fromkeys(map(one_line, behaviour.evals))
        yield f"- {inline.name(one_line(behaviour.name))}{text} ({len(behaviour.evals)}): {inline.paths(names)}"


MOST_ROWS = 300
RISKY = ("=", "+", "-", "@", "\t")
"""Characters that make a spreadsheet read a cell as a formula if the cell begins with them."""


def matrix_page(matrix: Matrix) -> str:
    lines = [
        f"# {pluralise(len(matrix.rows) + matrix.unnamed, 'eval')} in {len(matrix.columns)} runs",
        "",
        _matrix_answer(matrix),
        "",
        *_columns(matrix),
    ]
    discriminating = [row for row in matrix.rows if row.discriminates]
    if discriminating:
        lines += ["", "## Evals on which the runs differ", *_table(discriminating, matrix.columns)]
    for title, rows in (
        ("Passed everywhere", _rows_with_rate(matrix, 1.0)),
        ("Failed everywhere", _rows_with_rate(matrix, 0.0)),
    ):
        if rows:
            lines += ["", f"## {title}", _column_names([row.eval for row in rows])]
    if matrix.changed:
        lines += ["", "## Task or grader differs between runs", _column_names(matrix.changed)]
    if matrix.notes:
        lines += ["", "## Limits", *(f"- {prose(note)}" for note in matrix.notes)]
    runs = [run for column in matrix.columns for run in column.runs]
    return document(runs[:1], runs[1:], None, lines)


def as_csv(matrix: Matrix) -> str:
    """Render the matrix as CSV, with one row per eval.

    A cell contains the pass rate of a run, and is empty if no trial was judged.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["eval", *(_cell_text(one_line(column.name)) for column in matrix.columns), "rate", "discriminates"])
    for row in matrix.rows:
        cells = ["" if cell is None else f"{cell[0] / cell[1]:g}" for cell in row.cells]
        rate = "" if row.rate is None else f"{row.rate:.4g}"
        table.writerow([_cell_text(one_line(row.eval)), *cells, rate, "yes" if row.discriminates else "no"])
    return text.getvalue()


def _cell_text(text: str) -> str:
    return f"'{text}" if text.startswith(RISKY) else text


def _matrix_answer(matrix: Matrix) -> str:
    discriminating = sum(row.discriminates for row in matrix.rows)
    flaky = sum(any(cell and 0 < cell[0] < cell[1] for cell in row.cells) for row in matrix.rows)
    flaky_text = f"; {pluralise(flaky, 'eval')} passed only in some trials of a run" if flaky else ""
    return (
        f"**The runs differ on {discriminating} of {pluralise(len(matrix.rows) + matrix.unnamed, 'eval')}**; "
        f"{len(_rows_with_rate(matrix, 1.0)) + matrix.unnamed} passed "
        f"everywhere, {len(_rows_with_rate(matrix, 0.0))} failed everywhere{flaky_text}."
    )


def _rows_with_rate(matrix: Matrix, rate: float) -> list[MatrixRow]:
    return [row for row in matrix.rows if row.rate == rate]


def _columns(matrix: Matrix) -> Iterator[str]:
    yield from ("| # | Run | Passed | Rate | Always | Sometimes | Never |", "|--:|---|--:|--:|--:|--:|--:|")
    for number, column in enumerate(matrix.columns, 1):
        rate = percent(column.passed / column.trials) if column.trials else ""
        counts = " | ".join(map(str, (column.always, column.sometimes, column.never)))
        name = inline.cell(inline.name(one_line(column.name)))
        yield f"| {number} | {name} | {column.passed} of {column.trials} | {rate} | {counts} |"


def _table(rows: Sequence[MatrixRow], columns: Sequence[MatrixColumn]) -> Iterator[str]:
    yield f"| Eval | {' | '.join(map(str, range(1, len(columns) + 1)))} | Rate |"
    yield f"|---|{':-:|' * len(columns)}--:|"
    for row in rows[:MOST_ROWS]:
        cells = " | ".join(_cell(cell) for cell in row.cells)
        yield f"| {inline.cell(inline.printed_path(one_line(row.eval)))} | {cells} | {percent(row.rate or 0.0)} |"
    if len(rows) > MOST_ROWS:
        yield f"\nAnd {len(rows) - MOST_ROWS} more; the CSV and JSON output have all."


def _cell(cell: tuple[int, int] | None) -> str:
    if cell is None:
        return ""
    passed, trials = cell
    return ("✓" if passed else "✗") if trials == 1 else f"{passed}/{trials}"


def _column_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_ROWS} more" if len(names) > MOST_ROWS else ""
    return inline.paths(map(one_line, names[:MOST_ROWS])) + more
