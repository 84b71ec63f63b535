"""Workers judge every group once, within the concurrency limit, and stop if no failure can be judged."""

from pathlib import Path

import pytest

from evalscribe.judging.verdicts import Counts, JudgedGroup, JudgeQueue
from support.analysis_graph import (
    MemoryStore,
    ScriptedJudge,
    judge_groups,
    make_failures,
    make_groups,
    make_run,
    slow_script,
)


def queue_of(count: int, judge: ScriptedJudge, store: MemoryStore | None = None, **more: object) -> JudgeQueue:
    run = make_run(count)
    fields = {"run": run, "groups": make_groups(run), "case_of": make_failures(run), "judge": judge, **more}
    return JudgeQueue(store=store or MemoryStore(), **fields)  # type: ignore[arg-type]


async def test_every_group_is_judged_once_and_findings_keep_the_order(tmp_path: Path) -> None:
    judge, events = ScriptedJudge(slow_script(0.001)), list[JudgedGroup]()
    outcome = await judge_groups(queue_of(23, judge, on_event=events.append), tmp_path / "c.db")
    assert [finding.evals[0].id for finding in outcome.findings] == [f"e{n}" for n in range(23)]
    assert outcome.counts == Counts(total=23, judged=23)
    assert set(judge.asked.values()) == {1}
    assert [event.n for event in events] == list(range(1, 24))
    assert {event.total for event in events} == {23}


@pytest.mark.parametrize(("concurrency", "groups", "peak"), [(1, 9, 1), (4, 9, 4), (4, 2, 2), (0, 3, 1), (16, 30, 16)])
async def test_concurrency_limit_is_never_exceeded(concurrency: int, groups: int, peak: int, tmp_path: Path) -> None:
    judge = ScriptedJudge(slow_script(0.01))
    await judge_groups(queue_of(groups, judge, concurrency=concurrency), tmp_path / "c.db")
    assert judge.peak == peak


async def test_no_groups_give_no_findings(tmp_path: Path) -> None:
    outcome = await judge_groups(queue_of(0, ScriptedJudge()), tmp_path / "c.db")
    assert outcome.findings == ()
    assert outcome.counts == Counts()
