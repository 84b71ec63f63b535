"""Reports by maintainers, compared with the failures that the gold verdicts mark as named in them."""

import json
from pathlib import Path

from evalscribe.model.repository import ReportFile
from evalscribe.model.run import Eval, Run
from evalscribe.reports import reading, recurring
from evalscribe.reports.history import load_history


def folders(real_data: Path) -> list[Path]:
    return sorted(folder for folder in (real_data / "convex-runs").iterdir() if folder.is_dir())


def test_95_percent_of_named_failures_are_read_and_nothing_else(real_data: Path) -> None:
    named, recovered = 0, 0
    for folder in folders(real_data):
        gold = json.loads((folder / "gold.json").read_text())
        some = any("namedInReport" in one for one in gold["failures"])
        wanted = {
            one["evalPath"]: one["classification"] for one in gold["failures"] if one.get("namedInReport") or not some
        }
        others = {one["evalPath"]: one["classification"] for one in gold.get("otherRunFailures", ())}
        findings = reading.read_report((folder / "report.md").read_text(), f"{folder.name}.md").findings
        read = {one.eval: one.classification for one in findings}
        assert len(read) == len(findings)
        assert read.items() <= (wanted | others).items()
        named += len(wanted)
        recovered += len(wanted.items() & read.items())
    assert named == 81
    assert recovered / named >= 0.95


def test_failures_are_read_from_the_table_or_from_the_details_alone(real_data: Path) -> None:
    folder = real_data / "convex-runs" / "jn76nmvg"
    text = (folder / "report.md").read_text()
    before, table, rest = text.partition("## Failure classification table")
    details = "## Per-failure analysis" + rest.partition("## Per-failure analysis")[2]
    only_table = table + rest.partition("## Per-failure analysis")[0]
    gold = {
        one["evalPath"]: one["classification"] for one in json.loads((folder / "gold.json").read_text())["failures"]
    }
    for part in (before + details, before + only_table):
        assert {one.eval: one.classification for one in reading.read_report(part, "r.md").findings} == gold


def test_run_header_is_read(real_data: Path) -> None:
    for folder in folders(real_data):
        gold = json.loads((folder / "gold.json").read_text())
        run = reading.read_report((folder / "report.md").read_text(), f"{folder.name}.md").run
        assert (run.id, run.model, run.provider) == (gold["runId"], gold["model"], gold["provider"])
        assert (run.passed, run.total) == (gold["passed"], gold["total"])


def test_second_run_of_a_model_has_the_first_as_its_history(real_data: Path) -> None:
    files = [
        ReportFile(
            path=real_data / name,
            name=f"anthropic/claude-opus-4-6/{name}_2026-02-06.md",
            text=(real_data / "convex-runs" / name / "report.md").read_text(),
        )
        for name in ("jn7922j1", "jn72t14a")
    ]
    first, second = (_run(real_data / "convex-runs" / name) for name in ("jn7922j1", "jn72t14a"))
    assert load_history(files, first).reports == ()
    history = load_history(files, second)
    assert [report.name for report in history.reports] == ["jn7922j1_2026-02-06.md"]
    precedents = {path: one[0] for path, one in history.precedents.items()}
    assert len(precedents) == 11
    http = precedents["000-fundamentals/002-basic_http_endpoint"]
    assert (http.classification, http.by_person, http.step) == ("OVERLY_STRICT", True, "tests")
    assert http.action == "Added retry logic with exponential backoff to the grader test"
    assert precedents["000-fundamentals/003-crons"].action is None
    rows = {row.eval: row for row in recurring.recurring_in_reports(files).rows}
    assert {action.outcome for action in rows["000-fundamentals/002-basic_http_endpoint"].actions} == {
        "did not hold",
        "not yet seen",
    }
    assert [action.outcome for action in rows["002-queries/010-parallel_fetch"].actions] == ["held"]


def _run(folder: Path) -> Run:
    gold = json.loads((folder / "gold.json").read_text())
    paths = [one["evalPath"].partition("/") for one in gold["failures"]]
    failures = tuple(Eval(id=name, category=category, name=name) for category, _, name in paths)
    return Run(
        id=gold["runId"],
        provider=gold["provider"],
        model=gold["model"],
        experiment=gold["experiment"],
        failures=failures,
    )
