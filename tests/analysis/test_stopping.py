"""An error about one failure is its result. An error about all stops the workers, and finished verdicts stay."""

import asyncio
from pathlib import Path

import pytest

from evalscribe.errors import AccessError, EvalscribeError
from evalscribe.judging.verdicts import Counts, JudgedGroup, JudgeQueue
from evalscribe.model.evidence import UnreadableEvidence
from evalscribe.model.finding import Failure, FailureGroup, Unclassified, Verdict
from support.analysis_graph import MemoryStore, ScriptedJudge, judge_groups, make_failures, make_groups, make_run
from support.waiting import until

RUN = make_run(12)


def queue_of(judge: ScriptedJudge, store: MemoryStore, **more: object) -> JudgeQueue:
    fields = {"run": RUN, "groups": make_groups(RUN), "case_of": make_failures(RUN), "judge": judge, "store": store}
    return JudgeQueue(**{**fields, **more})  # type: ignore[arg-type]


async def fail_every_third(path: str) -> Verdict | Unclassified | None:
    """Fail for every third failure, each time in a different way."""
    match path:
        case "basics/00002":
            raise RuntimeError("a bug\nover two lines")
        case "basics/00005":
            await asyncio.sleep(3600)
        case "basics/00008":
            raise TimeoutError("of its own")
        case "basics/00011":
            return Unclassified(reason="refused", judge="scripted@1", final=True)
    return None


async def test_error_about_one_failure_is_its_result(tmp_path: Path) -> None:
    judge, store = ScriptedJudge(fail_every_third), MemoryStore()
    outcome = await judge_groups(queue_of(judge, store, timeout_s=0.2), tmp_path / "c.db")
    assert outcome.counts == Counts(total=12, judged=8, unclassified=4)
    assert [f.verdict.reason for f in outcome.findings if isinstance(f.verdict, Unclassified)] == [
        "the judge broke: RuntimeError: a bug over two lines",
        "no verdict within 0.2 s",
        "the judge broke: TimeoutError: of its own",
        "refused",
    ]
    assert set(judge.asked.values()) == {1}, "nothing is retried by the graph"


async def test_only_results_that_are_not_final_are_judged_again(tmp_path: Path) -> None:
    judge, store = ScriptedJudge(fail_every_third), MemoryStore()
    await judge_groups(queue_of(judge, store, timeout_s=0.2), tmp_path / "c.db")
    again = ScriptedJudge()
    outcome = await judge_groups(queue_of(again, store), tmp_path / "c.db")
    assert sorted(again.asked) == ["basics/00002", "basics/00005", "basics/00008"]
    assert outcome.counts == Counts(total=12, judged=3, cached=9)
    assert isinstance(outcome.findings[11].verdict, Unclassified)


async def test_fresh_judges_everything_again(tmp_path: Path) -> None:
    judge, store = ScriptedJudge(), MemoryStore()
    for fresh in (False, True, False):
        await judge_groups(queue_of(judge, store, fresh=fresh), tmp_path / "c.db")
    assert set(judge.asked.values()) == {2}


@pytest.mark.parametrize("error", [AccessError("wrong key"), OSError("a broken pipe of the display")])
async def test_error_about_all_failures_stops_the_workers(error: Exception, tmp_path: Path) -> None:
    async def script(path: str) -> None:
        if path == "basics/00003" and isinstance(error, AccessError):
            await until(lambda: len(store.verdicts) == 3, "three verdicts")
            raise error
        await asyncio.sleep(0 if path < "basics/00003" else 3600)

    def on_event(event: JudgedGroup) -> None:
        if event.n == 3 and isinstance(error, OSError):
            raise error

    judge, store = ScriptedJudge(script), MemoryStore()
    with pytest.raises(type(error), match=str(error)):
        await judge_groups(queue_of(judge, store, on_event=on_event), tmp_path / "c.db")
    assert sorted(store.verdicts) == [f"scripted@1 basics/0000{n}" for n in range(3)], "what was finished is kept"
    assert sum(judge.asked.values()) <= 7
    going_on = ScriptedJudge()
    outcome = await judge_groups(queue_of(going_on, store), tmp_path / "c.db")
    assert outcome.counts == Counts(total=12, judged=9, cached=3)


async def test_first_of_several_errors_is_raised(tmp_path: Path) -> None:
    async def script(path: str) -> None:
        raise AccessError(f"wrong key for {path}")

    judge = ScriptedJudge(script)
    with pytest.raises(AccessError, match="for basics/00000"):
        await judge_groups(queue_of(judge, MemoryStore()), tmp_path / "c.db")
    assert sum(judge.asked.values()) <= 4


async def test_unreadable_evidence_and_a_failed_preparation_are_unclassified(tmp_path: Path) -> None:
    def case_of(group: FailureGroup) -> Failure | UnreadableEvidence:
        if group.id == "g-e1":
            return UnreadableEvidence(eval=RUN.failures[1], reason="corrupt zip")
        if group.id == "g-e2":
            raise RecursionError("hostile evidence")
        return make_failures(RUN)(group)

    judge = ScriptedJudge()
    outcome = await judge_groups(queue_of(judge, MemoryStore(), case_of=case_of), tmp_path / "c.db")
    assert outcome.counts == Counts(total=12, judged=10, unclassified=2)
    assert outcome.findings[1].verdict == Unclassified(
        reason="corrupt zip", judge="scripted@1", final=True, cause="evidence"
    )
    assert outcome.findings[2].verdict == Unclassified(
        reason="the judge broke: RecursionError: hostile evidence", judge="scripted@1"
    )


async def test_store_error_stops_the_analysis(tmp_path: Path) -> None:
    class Full(MemoryStore):
        def put_verdict(self, key: str, verdict: Verdict | Unclassified) -> None:
            raise EvalscribeError("disk full")

    with pytest.raises(EvalscribeError, match="disk full"):
        await judge_groups(queue_of(ScriptedJudge(), Full()), tmp_path / "c.db")


async def test_cancelled_analysis_keeps_finished_verdicts(tmp_path: Path) -> None:
    async def script(path: str) -> None:
        await asyncio.sleep(0 if path < "basics/00006" else 3600)

    judge, store = ScriptedJudge(script), MemoryStore()
    start = asyncio.create_task(judge_groups(queue_of(judge, store), tmp_path / "c.db"))
    await until(lambda: sum(judge.asked.values()) == 10, "all lanes wait")
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert len(store.verdicts) == 6
