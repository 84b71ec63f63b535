"""Reading of actions that `apply` wrote. Evals are named by path or by the recommendation's id."""

from evalscribe.model.analysis import analysis_from_report
from evalscribe.model.finding import Classification, Recommendation
from evalscribe.model.report import EvalRef, Report, ReportEntry, RunHeader
from evalscribe.reports.data import write_data
from evalscribe.reports.freeform.sections import actions_in
from evalscribe.reports.page import render
from evalscribe.reports.reading import read_report

APPLIED = (
    "- 2026-11-21: R3, make `PLW2901` a warning: `ruff.toml` ({evals}), commit `abc1234` on `evalscribe/R3-make-plw`."
)


def report(actions: str) -> Report:
    label: Classification = "OVERLY_STRICT"
    refs = ("style/002-loop", "style/005-any", "types/004-ids")
    entries = tuple(ReportEntry(evals=(EvalRef(path=path),), step="lint", classification=label) for path in refs)
    return Report(
        run=RunHeader(id="smp7q2kax0d4m81v", provider="p", model="m", passed=1, failed=3, total=4, listed=3),
        date="2026-11-21",
        entries=entries,
        recommendations=(Recommendation(id="R3", group="lint", text="make it a warning", evals=refs[:2]),),
        actions_taken=actions,
    )


def test_evals_of_an_action_are_found_by_path_and_by_recommendation_id() -> None:
    applied = report(APPLIED.format(evals="style/002-loop"))
    (action,) = actions_in(applied.actions_taken, analysis_from_report(applied))
    assert action.evals == ("style/002-loop", "style/005-any")
    data = write_data(analysis_from_report(applied))
    (again,) = read_report(render(applied), "x.md", data).actions_taken
    assert again == action


def test_each_line_is_a_separate_action() -> None:
    lines = f"{APPLIED.format(evals='style/002-loop')}\n- 2026-11-22: fixed the grader of types/004-ids by hand."
    first, second = actions_in(lines, analysis_from_report(report(lines)))
    assert second.evals == ("types/004-ids",)
    assert first.text.startswith("2026-11-21: R3, make")
