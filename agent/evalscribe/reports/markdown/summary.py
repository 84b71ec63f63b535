"""Title and first lines: whose fault, what would help, what to look at, and the net impact.

Net impact: the run's rate without what never judged the model, and if the recommendations hold. All derived.
"""

from collections.abc import Callable, Iterable, Iterator

from evalscribe.model.evidence import CitationStatus
from evalscribe.model.report import Report, ReportEntry
from evalscribe.reports.markdown import inline, notes
from evalscribe.reports.markdown.blocks import PageBlock

NET_IMPACT = "Net impact"
NONE_SCORED = "no eval could be scored"


def render_net_impact(report: Report) -> list[str]:
    impact = report.net_impact
    apart = [str(number) for number, entry in enumerate(report.entries, 1) if entry.not_counted]
    without = "Without harness and infrastructure" + (f" ({', '.join(apart)})" if apart else "")
    return [
        f"## {NET_IMPACT}",
        "| | Passed | Rate |",
        "|---|--:|--:|",
        _row("As run", impact.passed, impact.total),
        _row(without, impact.scorable_passed, impact.scorable_total),
        _row(_if_they_hold(report), impact.hopeful_passed, impact.total),
        *notes.of(report, "net-impact"),
    ]


def rate(passed: int, total: int) -> str:
    return f"{100 * passed / total:.1f} %" if total else NONE_SCORED


def claimed(report: Report) -> str:
    """`R1 and R2`: the recommendations that would let a failure pass."""
    hoped = set(report.hoped_for)
    claims = [item for item in report.recommendations if item.would_pass and hoped.intersection(item.evals)]
    *head, last = [item.id or "a recommendation" for item in claims]
    return f"{', '.join(head)} and {last}" if head else last


def _if_they_hold(report: Report) -> str:
    if not report.hoped_for:
        return "If the recommendations hold (none claims a pass)"
    concerned = ", ".join(inline.render_references(report.hoped_for, report.entries))
    name = claimed(report)
    return f"If {name} {'hold' if ' and ' in name else 'holds'} ({concerned})"


def _row(name: str, passed: int, total: int) -> str:
    return inline.row(name, f"{passed}/{total}" if total else "–", rate(passed, total))


STATUS = {
    "failed": "The run did not complete",
    "running": "The run is still running",
    "importing": "Only a part of the run was imported",
    "unknown": "It is not known whether the run has completed",
}


def render(report: Report) -> list[str]:
    run = report.run
    title = f"# {inline.name(run.model)}: {run.failed} of {run.total} {_s('eval', run.total)} failed"
    first = " ".join((*_status(report), _verdict(report), *_hope(report)))
    second = " ".join((*_incomplete(report), *_apart(report), *_look(report), *_quotations(report)))
    return [title, "", first, *([second] if second else []), *notes.of(report, "summary")]


def is_ours(block: PageBlock) -> bool:
    """Our first lines start bold; a person's paragraph there is a note."""
    return block.kind == "paragraph" and block.text.startswith("**")


def _status(report: Report) -> Iterator[str]:
    run = report.run
    if run.status in STATUS:
        reason = f" ({run.status_reason})" if run.status_reason else ""
        yield f"**{STATUS[run.status]}**{reason}."
    if run.listed < run.failed:
        yield f"**Only {run.listed} of the {run.failed} failures are listed by the source and analysed here.**"


def _verdict(report: Report) -> str:
    """Whose fault the failures are; what is uncertain is counted apart, on neither side."""
    model, others, unsure = len(_sure(report, True)), len(_sure(report, False)), _evals(report, lambda e: e.uncertain)
    parts = [f"{model} {_s('failure', model)} {_are(model)} the model's", f"{others} {_are(others)} not"]
    if unsure:
        parts.append(f"{unsure} {_are(unsure)} uncertain")
    if open_ := report.count(None):
        parts.append(f"{open_} could not be judged")
    return f"**{', '.join(parts)}.**" if report.entries else "**No failure was listed.**"


def _sure(report: Report, model: bool) -> set[str]:
    """Paths of the failures that are the model's beyond doubt, or not the model's."""
    sure = (entry for entry in report.entries if entry.classification and not entry.uncertain)
    return {path for entry in sure if (entry.classification == "MODEL_FAULT") == model for path in entry.paths}


def _hope(report: Report) -> Iterator[str]:
    hoped, impact = report.hoped_for, report.net_impact
    if hoped:
        before, after = (
            rate(impact.passed, impact.total),
            rate(impact.hopeful_passed, impact.total),
        )
        others = _sure(report, False)
        which = f"of those {len(others)}" if others.issuperset(hoped) else "more"
        yield (
            f"{claimed(report)} would let {len(hoped)} {which} pass: "
            f"{impact.passed}/{impact.total} ({before}) → {impact.hopeful_passed}/{impact.total} ({after})."
        )


def _incomplete(report: Report) -> Iterator[str]:
    count = report.run.incomplete
    if count:
        yield f"{'One eval' if count == 1 else f'{count} evals'} never completed."


def _apart(report: Report) -> Iterator[str]:
    apart = [entry for entry in report.entries if entry.not_counted]
    counts = {kind: sum(len(e.evals) for e in apart if e.cause_kind == kind) for kind in ("harness", "infrastructure")}
    said = [f"{count} of kind {kind}" for kind, count in counts.items() if count]
    if said:
        yield f"Not counted against the model: {_and(said)} (its work was never judged)."


def _look(report: Report) -> Iterator[str]:
    reasons = {
        "a fix may not have held": _numbers(report, _again_despite_a_fix),
        "uncertain": _numbers(report, lambda entry: entry.uncertain),
        "not judged": _numbers(report, lambda entry: entry.classification is None),
        "quotation unverified": _numbers(report, lambda entry: _has(entry, "unverified")),
        "quotation found elsewhere": _numbers(report, lambda entry: _has(entry, "relocated")),
    }
    said = [f"{', '.join(numbers)} ({reason})" for reason, numbers in reasons.items() if numbers]
    if said:
        yield f"Look first at {_and(said)}."


def _again_despite_a_fix(entry: ReportEntry) -> bool:
    """What was not judged may have failed for any cause; it is named as such, once."""
    return entry.recurrence.kind == "fix-in-doubt" and entry.classification is not None


def _quotations(report: Report) -> Iterator[str]:
    states = [snippet.status for entry in report.entries for snippet in entry.snippets]
    odd = {status: states.count(status) for status in ("unverified", "relocated") if status in states}
    if odd:
        said = _and(f"{count} {_are(count)} {status}" for status, count in odd.items())
        yield f"Of {len(states)} {_s('quotation', len(states))} {said}."
    elif states:
        yield f"All {len(states)} quotations are verified." if len(states) > 1 else "The one quotation is verified."


def _numbers(report: Report, chosen: Callable[[ReportEntry], bool]) -> list[str]:
    return [str(number) for number, entry in enumerate(report.entries, 1) if chosen(entry)]


def _evals(report: Report, chosen: Callable[[ReportEntry], bool]) -> int:
    return sum(len(entry.evals) for entry in report.entries if chosen(entry))


def _has(entry: ReportEntry, status: CitationStatus) -> bool:
    return any(snippet.status == status for snippet in entry.snippets)


def _and(parts: Iterable[str]) -> str:
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last


def _s(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
