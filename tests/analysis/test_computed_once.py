"""Each failure is located, compared, packed and judged once; each record is loaded once and its request built once."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from evalscribe.analysis.analyze import analyze, open_analysis
from evalscribe.analysis.estimates import AnalysisResult
from evalscribe.analysis.explain import explain
from evalscribe.analysis.studio import StudioWatcher
from evalscribe.collections.judge import estimate_judging
from evalscribe.collections.subjects import PendingSubject
from evalscribe.evidence import differences, locate
from evalscribe.judging.judges import LoadedRubricJudge, LoadedSubject
from evalscribe.judging.pack import pack
from evalscribe.judging.rollout import build_request
from evalscribe.judging.rubric_judge import RubricJudge
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.reports.corrections import correct_label
from evalscribe.settings import Options
from evalscribe.store.collections import open_collections
from evalscribe.workspace import Workspace
from support.judge_panel import Panelists, answer, rubric, subject

FAILURES = 10
WITH_REFERENCE = 11
"""Number of files in the sample's outputs that have a reference."""
COUNTED: dict[str, Callable[..., Any]] = {
    "located": locate.locate_all,
    "tests read": locate.tests,
    "packed": pack,
    "matched": differences.pair_documents,
    "diffed": differences.diff_hunks,
    "rules run": RulesJudge.decide,
    "requests built": build_request,
}


@contextmanager
def calls() -> Iterator[Counter[str]]:
    """Count calls of the functions in `COUNTED`, cached or not."""
    names: dict[CodeType, str] = {function.__code__: name for name, function in COUNTED.items()}
    counts = Counter[str]()

    def hear(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in names:
            counts[names[frame.f_code]] += 1

    before = sys.getprofile()
    sys.setprofile(hear)
    try:
        yield counts
    finally:
        sys.setprofile(before)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.chdir(tmp_path)
    return Options(judge="rules")


async def test_analysis_computes_each_step_once_per_failure(options: Options) -> None:
    async with Workspace(options) as workspace:
        with calls() as counts:
            await analyze(workspace, "sample", StudioWatcher())
    once = dict.fromkeys(("located", "tests read", "packed", "matched", "rules run"), FAILURES)
    assert counts == {**once, "diffed": WITH_REFERENCE}


async def test_second_analysis_runs_no_rule(options: Options) -> None:
    async with Workspace(options) as workspace:
        await analyze(workspace, "sample", StudioWatcher())
        with calls() as counts:
            await analyze(workspace, "sample", StudioWatcher())
    assert counts["rules run"] == 0
    assert counts["packed"] == FAILURES


async def test_collating_in_another_process_reads_verdicts_from_the_store(options: Options) -> None:
    """A thread that is resumed after judging does this."""
    async with Workspace(options) as workspace:
        done = await analyze(workspace, "sample", StudioWatcher())
        async with open_analysis(workspace, "sample", StudioWatcher()) as analysis:
            with calls() as counts:
                findings = await analysis.collate()
            assert await analysis.write()
            assert isinstance(done, AnalysisResult)
            assert analysis.result.text == done.text
    assert len(findings) == FAILURES
    assert all(finding.judged for finding in findings)
    assert counts["rules run"] == 0


async def test_label_written_after_collating_is_kept(options: Options) -> None:
    async with Workspace(options) as workspace:
        done = await analyze(workspace, "sample", StudioWatcher())
        assert isinstance(done, AnalysisResult)
        async with open_analysis(workspace, "sample", StudioWatcher()) as analysis:
            await analysis.collate()
            await asyncio.to_thread(correct_label, workspace, str(done.path), "1", "AMBIGUOUS_TASK")
            await analysis.write()
            entry = analysis.result.report.entries[0]
    assert (entry.classification, entry.judge and entry.judge.classification != "AMBIGUOUS_TASK") == (
        "AMBIGUOUS_TASK",
        True,
    )


async def test_explain_computes_each_step_once(options: Options) -> None:
    async with Workspace(options) as workspace:
        with calls() as counts:
            await explain(workspace, "sample", "text/004-tags", StudioWatcher())
    assert {name: count for name, count in counts.items() if name != "diffed"} == dict.fromkeys(
        ("located", "tests read", "packed", "matched", "rules run"), 1
    )


async def test_judging_a_record_loads_it_and_builds_its_request_once(tmp_path: Path) -> None:
    loads: list[str] = []

    def load() -> LoadedSubject:
        loads.append("run-1")
        return LoadedSubject(subject())

    pending = PendingSubject(name="run-1", load=load)
    with closing(open_collections(tmp_path)) as results, calls() as counts:
        judge = LoadedRubricJudge(RubricJudge(rubric(), Panelists([answer()]), results=results))
        assert estimate_judging(judge, [pending]).input_tokens
        loaded = pending.take()
        assert isinstance(loaded, LoadedSubject)
        await judge.judge(loaded)
    assert loads == ["run-1"]
    assert counts == {"requests built": 1}
    assert isinstance(pending.take(), LoadedSubject), "what was taken is loaded anew"
