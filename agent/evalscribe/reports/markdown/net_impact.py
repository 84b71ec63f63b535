"""What the run's rate would be without what never judged the model, and if the recommendations hold. Derived."""

from evalscribe.model.report import Report
from evalscribe.reports.markdown import inline, notes

HEADING = "Net impact"
NONE_SCORED = "no eval could be scored"


def render(report: Report) -> list[str]:
    impact = report.net_impact
    apart = [str(number) for number, entry in enumerate(report.entries, 1) if entry.not_counted]
    without = "Without harness and infrastructure" + (f" ({', '.join(apart)})" if apart else "")
    return [
        f"## {HEADING}",
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
