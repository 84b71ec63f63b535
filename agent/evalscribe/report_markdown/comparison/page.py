"""The page of a comparison of two sides: the answer first, then what changed."""

from collections.abc import Iterator, Sequence

from evalscribe.model.comparison import Behaviour, Comparison, ComparisonSide, ExcludedEval
from evalscribe.report_markdown import inline
from evalscribe.report_markdown.comparison import evals
from evalscribe.report_markdown.comparison.document import document
from evalscribe.report_markdown.comparison.sentences import answer, percent, times, title
from evalscribe.text import one_line, prose

TITLES = {
    "changed": "Task or grader changed in between",
    "not-judged": "Never judged: no regression, whatever happened",
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
        _section("Regressed", evals.regressed(found.of("regressed"))),
        _section("Fixed", _names([pair.eval for pair in found.of("fixed")])),
        _section("Fails for another reason", _causes(found)),
        _section("Left out", _apart(found.apart)),
        _section("Limits", (f"- {prose(note)}" for note in found.notes)),
    )
    lines += [line for part in parts for line in part]
    return document(found.base.runs, found.candidate.runs, found.judge, lines)


def _section(title: str, lines: Iterator[str]) -> list[str]:
    said = list(lines)
    return ["", f"## {title}", *said] if said else []


def _foremost(found: Comparison) -> Iterator[str]:
    known = [one for one in found.behaviours if one.known]
    told = [f"{inline.name(one_line(one.name))} ({len(one.evals)})" for one in known[:FOREMOST]]
    if told:
        more = len(known) - len(told)
        yield f"Behind what got worse: {', '.join(told)}{f' and {more} more' if more > 0 else ''}."
    if found.apart:
        yield f"Left out of the figures: {len(found.apart)}, listed below."


def _sides(found: Comparison) -> Iterator[str]:
    yield from ("| | Base | Candidate |", "|---|---|---|")
    sides = (found.base, found.candidate)
    yield f"| Model | {' | '.join(inline.cell(inline.name(one_line(side.name))) for side in sides)} |"
    yield f"| Runs | {' | '.join(inline.cell(_runs(side)) for side in sides)} |"
    yield f"| Experiment | {' | '.join(inline.cell(inline.paths(side.experiments)) for side in sides)} |"
    yield f"| Passed, of what is compared | {' | '.join(f'{side.passed} of {side.trials}' for side in sides)} |"


def _runs(side: ComparisonSide) -> str:
    shown = ", ".join(inline.code(one_line(run)) for run in side.runs[:5])
    return shown + (f" and {len(side.runs) - 5} more" if len(side.runs) > 5 else "")


def _behaviours(behaviours: Sequence[Behaviour]) -> Iterator[str]:
    for one in behaviours:
        text = f", {prose(one.text)}" if one.text else ""
        yield f"- {inline.name(one_line(one.name))}{text} ({len(one.evals)}): {_listed(one.evals)}"


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
        yield f"\n{name} alone differs beyond luck ({times(one.p)}, all categories considered)."
    if not surely:
        yield "\nNo category alone differs beyond luck, all of them considered."


def _scores(found: Comparison) -> Iterator[str]:
    if not found.scores:
        return
    yield from ("| Score | Base | Candidate | Difference | 95 % interval | By luck |", "|---|--:|--:|--:|---|---|")
    for one in found.scores:
        figures = (f"{one.base:.3f}", f"{one.candidate:.3f}", f"{one.found.difference:+.3f}")
        interval = f"{one.found.low:+.3f} to {one.found.high:+.3f}"
        name = inline.cell(inline.name(one_line(one.name)))
        yield f"| {name} | {' | '.join(figures)} | {interval} | {times(one.found.p)} |"


def _causes(found: Comparison) -> Iterator[str]:
    for pair in found.pairs:
        if pair.cause_changed:
            before, after = (inline.name(one_line(cause or "")) for cause in pair.causes)
            yield f"- {inline.path(one_line(pair.eval))}: {before} → {after}"


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


def _names(names: Sequence[str]) -> Iterator[str]:
    if names:
        yield _listed(names)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return inline.paths(one_line(name) for name in names[:MOST_NAMES]) + more
