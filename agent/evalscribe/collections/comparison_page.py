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
    """Render the whole comparison page; `base` and `candidate` are run ids."""
    worse = [pair for pair in pairs if pair.change == "regressed"] if judge else []
    facts = {
        "base": list(base),
        "candidate": list(candidate),
        "judge": judge,
        documents.NOT_ANSWERED: sum(pair.why is None or pair.why.result is None for pair in worse),
    }
    return documents.document(COMPARISON_KIND, facts, lines)


def same_runs(text: str, other: str) -> bool:
    """Return whether two documents compare the same runs, according to their front matter."""
    return documents.same_facts(text, other, ("base", "candidate"))


SURELY = 0.01
"""Significance level for changes of single evals; low, because this is a second test of the same evals."""


def title(found: Comparison) -> str:
    base, candidate = (f"{inline.name(one_line(side.name))}" for side in (found.base, found.candidate))
    experiments = [inline.paths(one_line(name) for name in side.experiments) for side in (found.base, found.candidate)]
    if found.experiments_differ:
        base, candidate = f"{base} (experiment {experiments[0]})", f"{candidate} (experiment {experiments[1]})"
    return f"# {base} → {candidate}: {_changes(found)} of {pluralise(found.evals, 'eval')}"


def _changes(found: Comparison) -> str:
    worse, better = len(found.of("regressed")), len(found.of("fixed"))
    if any(len(side) > 1 for pair in found.pairs for side in (pair.base, pair.candidate)):
        return f"{worse} worse, {better} better"  # with several trials, an eval may have changed only partly
    return f"{worse} broke, {better} fixed"


def answer(found: Comparison) -> str:
    """Render the answer: what happened, by how much, and whether chance explains it."""
    passes = found.passes
    if not passes.tasks or found.base.rate is None or found.candidate.rate is None:
        return "**Nothing can be compared: no eval was tried and judged on both sides.**"
    rates = f"{percent(found.base.rate)} → {percent(found.candidate.rate)}"
    interval = f"{points(passes.difference)}, 95 % interval {_interval(passes)}"
    return " ".join([f"**{_verdict(found)}** ({rates}, {interval}).", *_chance(found)])


def percent(rate: float) -> str:
    return f"{rate * 100:.1f} %"


def points(difference: float) -> str:
    """Render a difference in percentage points, such as `-7.5 points`."""
    return f"{difference * 100:+.1f} points"


def times(p: float) -> str:
    """Render a p-value as a frequency, such as `in 51 of 100 such comparisons`."""
    if p < 0.001:
        return "in fewer than 1 of 1,000"
    return f"in {p * 1000:.0f} of 1,000" if p < 0.095 else f"in {p * 100:.0f} of 100"


def _interval(found: MeanDifference) -> str:
    return f"{found.low * 100:+.1f} to {found.high * 100:+.1f}"


def _verdict(found: Comparison) -> str:
    passes = found.passes
    changed = bool(found.of("regressed") or found.of("fixed"))
    if not passes.difference:
        return f"Same pass rate, different evals: {_changes(found)}" if changed else "Same pass rate, no eval changed"
    if passes.significant:
        return f"{'Better' if passes.difference > 0 else 'Worse'}: {_changes(found)}"
    return f"{'Higher' if passes.difference > 0 else 'Lower'} pass rate, which may be chance: {_changes(found)}"


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _chance(found: Comparison) -> Iterator[str]:
    passes = found.passes
    base, evals = found.base.rate or 0.0, pluralise(passes.tasks, "eval")
    if passes.detectable is None or passes.detectable > max(base, 1 - base):  # such a difference is impossible
        shown = f"{evals} {'is' if passes.tasks == 1 else 'are'} too few to show any difference reliably"
    else:
        shown = f"{evals} reliably show only a difference of {passes.detectable * 100:.0f} points or more"
    if found.of("regressed") or found.of("fixed"):
        chance = f"{times(passes.p)} comparisons ({p_value(passes.p)})"
        yield f"Chance alone makes a difference of at least this size {chance}; {shown}."
    else:
        yield f"{shown[0].upper()}{shown[1:]}."
    if not passes.significant and found.by_eval is not None and found.by_eval <= SURELY:
        yield f"Single evals changed more than chance explains ({p_value(found.by_eval)})."


LONGEST_QUOTE = 300
MOST = 100
"""Maximum evals shown in full; further evals are only named."""


def regressed(pairs: Sequence[EvalPair], *, trials: bool = False) -> Iterator[str]:
    """Render a section for each of the first `MOST` regressed evals, then the names of the others.

    Args:
        trials: True if each pair is about a single failed trial rather than an eval.
    """
    for pair in pairs[:MOST]:
        name = f"{pair.eval}#{pair.candidate[0].trial}" if trials else pair.eval
        yield from (
            "",
            f"### {inline.printed_path(one_line(name))}",
            _trials_of_sides(pair, trials=trials),
            *_told(pair, trials=trials),
        )
    if len(pairs) > MOST:
        yield from ("", f"And {len(pairs) - MOST} more: {inline.paths(pair.eval for pair in pairs[MOST:])}.")


def _trials_of_sides(pair: EvalPair, *, trials: bool) -> str:
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
    """Render `passed`, `failed`, or for several trials `passed 3 of 4`."""
    count = sum(trial.passed for trial in side)
    return ("passed" if count else "failed") if len(side) == 1 else f"passed {count} of {len(side)}"


def cause(trial: Trial) -> str:
    """Return the reason of a failure, from its report, with the kind of cause in parentheses."""
    kind = f" ({trial.cause_kind})" if trial.cause_kind else ""
    why = prose(trial.why) if trial.why else inline_words(one_line(trial.cause or ""))
    return f"{why}{kind}" if why else ""


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
FOREMOST = 3


def comparison_page(found: Comparison) -> str:
    lines = [title(found), "", answer(found), *_foremost(found), "", *_sides(found)]
    parts = (
        _section("What changed", _behaviours(found.behaviours)),
        _section("Changes by category", _categories(found)),
        _section("Scores", _scores(found)),
        _section("Regressed", regressed(found.of("regressed"))),
        _section("Fixed", _fixed(found.of("fixed"))),
        _section("Fails in both", _causes(found)),
        _section("Left out", _apart(found.apart)),
        _section("Limits", (f"- {prose(note)}" for note in found.notes)),
    )
    lines += [line for part in parts for line in part]
    return document(found.base.runs, found.candidate.runs, found.judge, lines, found.pairs)


def _section(title: str, lines: Iterator[str]) -> list[str]:
    said = list(lines)
    return ["", f"## {title}", *said] if said else []


def _foremost(found: Comparison) -> Iterator[str]:
    known = [one for one in found.behaviours if one.known]
    told = [f"{_behaviour(one)} ({len(one.evals)})" for one in known[:FOREMOST]]
    if told:
        more = len(known) - len(told)
        yield f"Behind what got worse: {', '.join(told)}{f' and {more} more' if more > 0 else ''}."
    left_out = [f"{len(found.apart)}, listed below"] if found.apart else []
    left_out += [f"{found.incomplete} that never completed"] if found.incomplete else []
    if left_out:
        yield f"Left out of the figures: {' and '.join(left_out)}."
    both = found.of("both-failed")
    if both:
        other = sum(pair.cause_changed for pair in both)
        moved = f", {other} for a different reason than before" if other else ""
        yield f"Fails in both: {pluralise(len(both), 'eval')}{moved}."
    unexplained = [side for side in (found.base, found.candidate) if side.unexplained]
    if unexplained:
        runs = [inline.code(one_line(f"evalscribe analyze {run}")) for side in unexplained for run in side.unexplained]
        yield f"Some failures have no known cause yet: run {join_first(runs, FOREMOST)}, then compare again."


def _sides(found: Comparison) -> Iterator[str]:
    yield from ("| | Base | Candidate |", "|---|---|---|")
    sides = (found.base, found.candidate)
    models = ("/".join(model_folder(side.provider, side.model)) for side in sides)
    yield f"| Model | {' | '.join(inline.cell(inline.name(one_line(model))) for model in models)} |"
    yield f"| Runs | {' | '.join(inline.cell(_runs(side)) for side in sides)} |"
    yield f"| Experiment | {' | '.join(inline.cell(inline.paths(side.experiments)) for side in sides)} |"
    yield f"| Passed, of compared trials | {' | '.join(f'{side.passed} of {side.trials}' for side in sides)} |"


def _runs(side: ComparisonSide) -> str:
    shown = ", ".join(inline.code(one_line(run)) for run in side.runs[:5])
    return shown + (f" and {len(side.runs) - 5} more" if len(side.runs) > 5 else "")


def _behaviours(behaviours: Sequence[Behaviour]) -> Iterator[str]:
    for one in behaviours:
        text = f", {prose(one.text)}" if one.text else ""
        yield f"- {_behaviour(one)}{text} ({len(one.evals)}): {_listed(one.evals)}"


def _behaviour(one: Behaviour) -> str:
    return prose(one.name) if one.text.startswith(IN_REPORT) else inline.name(one_line(one.name))


def _categories(found: Comparison) -> Iterator[str]:
    if not found.categories:
        return
    rates = found.categories[0].base is not None
    yield f"| Category | {'Evals | Base | Candidate' if rates else 'Evals that failed somewhere'} | Worse | Better |"
    yield f"|---|{'--:|--:|--:' if rates else '--:'}|--:|--:|"
    for one in found.categories:
        told = [f"{one.evals}", *([percent(rate) for rate in (one.base, one.candidate) if rate is not None])]
        name = inline.cell(inline.name(one_line(one.category) or "none"))
        yield f"| {name} | {' | '.join(told)} | {one.regressed} | {one.fixed} |"
    surely = [one for one in found.categories if one.p <= 0.05]
    for one in surely:
        name = inline.name(one_line(one.category) or "none")
        yield f"\n{name} alone differs more than chance explains ({times(one.p)}, all categories considered)."
    if not surely:
        yield "\nNo category alone differs more than chance explains."


def _scores(found: Comparison) -> Iterator[str]:
    if not found.scores:
        return
    yield from ("| Score | Base | Candidate | Difference | 95 % interval | By chance |", "|---|--:|--:|--:|---|---|")
    for one in found.scores:
        figures = (f"{one.base:.3f}", f"{one.candidate:.3f}", f"{one.found.difference:+.3f}")
        interval = f"{one.found.low:+.3f} to {one.found.high:+.3f}"
        name = inline.cell(inline.name(one_line(one.name)))
        yield f"| {name} | {' | '.join(figures)} | {interval} | {times(one.found.p)} |"


def _causes(found: Comparison) -> Iterator[str]:
    """List the evals that fail on both sides, grouped by reason; evals whose reason changed come last."""
    alike: dict[str, list[str]] = {}
    for pair in found.of("both-failed"):
        before, after = (cause(failed) if failed else "" for failed in pair.first_failures)
        reasons = f"{before} → {after}" if pair.cause_changed else after or before or "no reason known"
        alike.setdefault(reasons, []).append(pair.eval)
    for reasons, names in sorted(alike.items(), key=lambda one: " → " in one[0]):
        yield f"- {reasons}: {_listed(names)}"


def _apart(apart: Sequence[ExcludedEval]) -> Iterator[str]:
    for reason, what in TITLES.items():
        of = [one for one in apart if one.reason == reason]
        if of and reason.startswith("only"):
            yield f"- {what} ({len(of)}): {_listed([one.eval for one in of])}"
        elif of:
            details = dict.fromkeys(one.detail for one in of)
            yield f"- {what} ({len(of)}):"
            for detail in list(details)[:MOST_NAMES]:
                yield f"  - {prose(detail)}: {_listed([one.eval for one in of if one.detail == detail])}"


def _fixed(pairs: Sequence[EvalPair]) -> Iterator[str]:
    """Name the evals that got better; if only some trials of an eval pass now, add how many."""
    whole = [pair for pair in pairs if all(trial.passed for trial in pair.candidate)]
    if whole:
        yield _listed([pair.eval for pair in whole])
    for pair in pairs:
        if pair not in whole:
            name = inline.printed_path(one_line(pair.eval))
            yield f"- {name} passes more often, but not always: {passed(pair.base)}, then {passed(pair.candidate)}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return inline.paths(one_line(name) for name in names[:MOST_NAMES]) + more


def within_page(found: WithinRunComparison) -> str:
    lines = [_title_within(found), "", _answer_within(found)]
    if found.behaviours:
        lines += ["", "## What failed trials do differently", *_behaviours_within(found)]
    if found.pairs:
        lines += ["", "## Failed trials", *regressed(found.pairs, trials=True)]
    if found.without:
        lines += ["", "## Never passed", f"Nothing to compare with: {inline.paths(map(one_line, found.without))}."]
    if found.notes:
        lines += ["", "## Limits", *(f"- {prose(note)}" for note in found.notes)]
    return document(found.side.runs, found.side.runs, found.judge, lines, found.pairs)


def _title_within(found: WithinRunComparison) -> str:
    return f"# {inline.name(found.side.name)}: {pluralise(len(found.pairs), 'failed trial')} beside one that passed"


def _answer_within(found: WithinRunComparison) -> str:
    tasks = len({pair.eval for pair in found.pairs})
    failed = found.side.trials - found.side.passed
    never = f"; {pluralise(len(found.without), 'eval')} never passed" if found.without else ""
    return (
        f"**{found.side.passed} of {pluralise(found.side.trials, 'trial')} passed.** Of the {failed} failed trials, "
        f"{len(found.pairs)} belong to {pluralise(tasks, 'eval')} that also passed{never}."
    )


def _behaviours_within(found: WithinRunComparison) -> Iterator[str]:
    for one in found.behaviours:
        text = f", {prose(one.text)}" if one.text else ""
        names = dict.fromkeys(map(one_line, one.evals))
        yield f"- {inline.name(one_line(one.name))}{text} ({len(one.evals)}): {inline.paths(names)}"


MOST_ROWS = 300
RISKY = ("=", "+", "-", "@", "\t")
"""First characters of a spreadsheet formula."""


def matrix_page(found: Matrix) -> str:
    lines = [
        f"# {pluralise(len(found.rows) + found.unnamed, 'eval')} in {len(found.columns)} runs",
        "",
        _matrix_answer(found),
        "",
        *_columns(found),
    ]
    telling = [row for row in found.rows if row.discriminates]
    if telling:
        lines += ["", "## Evals on which the runs differ", *_table(telling, found.columns)]
    for title, rows in (("Passed everywhere", _same(found, 1.0)), ("Failed everywhere", _same(found, 0.0))):
        if rows:
            lines += ["", f"## {title}", _column_names([row.eval for row in rows])]
    if found.changed:
        lines += ["", "## Task or grader differs between runs", _column_names(found.changed)]
    if found.notes:
        lines += ["", "## Limits", *(f"- {prose(note)}" for note in found.notes)]
    runs = [run for column in found.columns for run in column.runs]
    return document(runs[:1], runs[1:], None, lines)


def as_csv(found: Matrix) -> str:
    """Render the matrix as CSV, one line per eval. A cell is the pass rate, or empty if no trial was judged."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["eval", *(_cell_text(one_line(column.name)) for column in found.columns), "rate", "discriminates"])
    for row in found.rows:
        cells = ["" if cell is None else f"{cell[0] / cell[1]:g}" for cell in row.cells]
        rate = "" if row.rate is None else f"{row.rate:.4g}"
        table.writerow([_cell_text(one_line(row.eval)), *cells, rate, "yes" if row.discriminates else "no"])
    return text.getvalue()


def _cell_text(text: str) -> str:
    return f"'{text}" if text.startswith(RISKY) else text


def _matrix_answer(found: Matrix) -> str:
    telling = sum(row.discriminates for row in found.rows)
    flaky = sum(any(cell and 0 < cell[0] < cell[1] for cell in row.cells) for row in found.rows)
    steady = f"; {pluralise(flaky, 'eval')} passed only in some trials of a run" if flaky else ""
    return (
        f"**The runs differ on {telling} of {pluralise(len(found.rows) + found.unnamed, 'eval')}**; "
        f"{len(_same(found, 1.0)) + found.unnamed} passed "
        f"everywhere, {len(_same(found, 0.0))} failed everywhere{steady}."
    )


def _same(found: Matrix, rate: float) -> list[MatrixRow]:
    return [row for row in found.rows if row.rate == rate]


def _columns(found: Matrix) -> Iterator[str]:
    yield from ("| # | Run | Passed | Rate | Always | Sometimes | Never |", "|--:|---|--:|--:|--:|--:|--:|")
    for number, one in enumerate(found.columns, 1):
        rate = percent(one.passed / one.trials) if one.trials else ""
        counts = " | ".join(map(str, (one.always, one.sometimes, one.never)))
        name = inline.cell(inline.name(one_line(one.name)))
        yield f"| {number} | {name} | {one.passed} of {one.trials} | {rate} | {counts} |"


def _table(rows: Sequence[MatrixRow], columns: Sequence[MatrixColumn]) -> Iterator[str]:
    yield f"| Eval | {' | '.join(map(str, range(1, len(columns) + 1)))} | Rate |"
    yield f"|---|{':-:|' * len(columns)}--:|"
    for row in rows[:MOST_ROWS]:
        cells = " | ".join(_cell(cell) for cell in row.cells)
        yield f"| {inline.cell(inline.printed_path(one_line(row.eval)))} | {cells} | {percent(row.rate or 0.0)} |"
    if len(rows) > MOST_ROWS:
        yield f"\nAnd {len(rows) - MOST_ROWS} more; see `--csv` or `--json`."


def _cell(cell: tuple[int, int] | None) -> str:
    if cell is None:
        return ""
    passed, trials = cell
    return ("✓" if passed else "✗") if trials == 1 else f"{passed}/{trials}"


def _column_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_ROWS} more" if len(names) > MOST_ROWS else ""
    return inline.paths(map(one_line, names[:MOST_ROWS])) + more
