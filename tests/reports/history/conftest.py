"""Small reports by evalscribe and by people."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from evalscribe.model.analysis import analysis_from_report
from evalscribe.model.finding import Classification
from evalscribe.model.report import EvalRef, JudgeLabel, Report, ReportEntry, RunHeader
from evalscribe.model.repository import ReportFile
from evalscribe.model.run import Eval, Run
from evalscribe.reports.data import write_data
from evalscribe.reports.page import render

MakeFile = Callable[..., ReportFile]
PageAndData = tuple[str, str]


@pytest.fixture
def file() -> Callable[[str, str | PageAndData], ReportFile]:
    def make(name: str, page: str | PageAndData) -> ReportFile:
        text, data = page if isinstance(page, tuple) else (page, None)
        return ReportFile(path=Path("/reports") / name, name=name, text=text, data=data)

    return make


@pytest.fixture
def run() -> Callable[..., Run]:
    def make(*paths: str, id: str = "run9zzzzzzzzzzzz", experiment: str = "default", evals: Sequence[str] = ()) -> Run:
        failures = []
        for path in paths:
            category, _, name = path.rpartition("/")
            name, _, trial = name.partition("#")
            trials = {"trial": int(trial), "trials": 9} if trial else {}
            failures.append(Eval(id=path, category=category, name=name, **trials))
        return Run(id=id, provider="p", model="m", experiment=experiment, failures=failures, evals=evals or None)

    return make


@pytest.fixture
def free() -> Callable[..., str]:
    """Return a function that writes a report by a person from a mapping of evals to labels."""

    def make(labels: dict[str, str], run_id: str = "", date: str = "", experiment: str = "", after: str = "") -> str:
        head = [("Run ID", run_id), ("Date", date), ("Experiment", experiment)]
        lines = [f"- **{key}**: {value}" for key, value in head if value]
        entries = [f"### {n}. {path} — {label}\n\nBecause.\n" for n, (path, label) in enumerate(labels.items(), 1)]
        return "\n".join(["# Run analysis", *lines, "", "## Failures", *entries, after])

    return make


@pytest.fixture
def ours() -> Callable[..., PageAndData]:
    """Return a function that writes page and data of an evalscribe report with one eval.

    `judged` is the judge's label and `label` the label in force.
    """

    def make(
        path: str,
        judged: Classification | None,
        label: Classification | None,
        reviewer: tuple[str, ...] = (),
        actions: str = "",
        run_id: str = "run1aaaaaaaaaaaa",
        date: str = "2026-01-02",
        earlier: tuple[str, ...] = (),
    ) -> PageAndData:
        entry = ReportEntry(
            evals=(EvalRef(path=path),),
            step="tests",
            classification=label,
            cause="missing-args" if judged else None,
            cause_kind="model" if judged else None,
            judge=JudgeLabel(id="rules@1", classification=judged, confidence=0.9) if judged else None,
            error="boom",
            reasoning="Because.",
            reviewer=reviewer,
        )
        header = RunHeader(id=run_id, provider="p", model="m", passed=1, failed=1, total=2, listed=1)
        report = Report(
            run=header,
            date=date,
            judges=("rules@1",),
            evidence="sha256:00000000",
            earlier=earlier,
            entries=(entry,),
            actions_taken=actions,
        )
        return render(report), write_data(analysis_from_report(report))

    return make
