"""Reports to correct."""

import pytest

from evalscribe.model.report import EvalRef, JudgeLabel, Report, ReportEntry, RunHeader


@pytest.fixture
def made_group() -> Report:
    """Report with one group of three failures, which has only the judge's label."""
    judge = JudgeLabel(id="rules@1", classification="KNOWN_GAP", confidence=0.9)
    refs = tuple(EvalRef(path=path) for path in ("a/1", "a/2", "b/1"))
    run = RunHeader(id="grouprun", provider="example", model="m-1", passed=1, failed=3, total=4, listed=3)
    return Report(
        run=run, date="2026-11-02", entries=(ReportEntry(evals=refs, classification="KNOWN_GAP", judge=judge),)
    )
