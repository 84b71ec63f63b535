"""Classifying one failure: stored verdicts are reused, and errors of the judge become values."""

import asyncio

import pytest

from evalscribe.errors import AccessError
from evalscribe.judging.verdicts import FailureVerdict, JudgingOptions, classify
from evalscribe.model.chat import Usage
from evalscribe.model.finding import Failure, Unclassified, Verdict
from support.analysis_graph import MemoryStore, ScriptedJudge, make_failures, make_groups, make_run, verdict

RUN = make_run(1)
CASE = make_failures(RUN)(make_groups(RUN)[0])
TERMS = JudgingOptions(timeout_s=5)
KEY = "scripted@1 basics/00000"
FINAL = Unclassified(reason="refused", judge="scripted@1", final=True)
PASSING = Unclassified(reason="overloaded", judge="scripted@1", usage=Usage(calls=2))


async def answer(judge: ScriptedJudge, store: MemoryStore, terms: JudgingOptions = TERMS) -> FailureVerdict:
    return await classify(CASE, judge, store, terms)


def saying(said: Verdict | Unclassified) -> ScriptedJudge:
    async def script(_: str) -> Verdict | Unclassified:
        return said

    return ScriptedJudge(script)


async def test_a_verdict_is_stored() -> None:
    store = MemoryStore()
    assert await answer(ScriptedJudge(), store) == FailureVerdict(verdict=verdict())
    assert store.verdicts == {KEY: verdict()}


async def test_reason_for_a_missing_verdict_is_stored() -> None:
    store = MemoryStore()
    assert await answer(saying(PASSING), store) == FailureVerdict(verdict=PASSING, undecided=PASSING)
    assert store.verdicts == {KEY: PASSING}


@pytest.mark.parametrize(("known", "asked"), [(verdict(), 0), (FINAL, 0), (PASSING, 1), (None, 1)])
async def test_final_stored_verdict_is_reused_without_asking_the_judge(
    known: Verdict | Unclassified | None, asked: int
) -> None:
    judge, store = ScriptedJudge(), MemoryStore()
    if known is not None:
        store.put_verdict(KEY, known)
    outcome = await answer(judge, store)
    assert sum(judge.asked.values()) == asked
    assert outcome.cached == (asked == 0)
    assert outcome.verdict == (verdict() if asked else known)


async def test_fresh_asks_the_judge_despite_a_stored_verdict() -> None:
    store = MemoryStore()
    store.put_verdict(KEY, verdict(why="old"))
    outcome = await answer(ScriptedJudge(), store, JudgingOptions(timeout_s=5, fresh=True))
    assert outcome == FailureVerdict(verdict=verdict())
    assert store.verdicts == {KEY: verdict()}


@pytest.mark.parametrize("said", [FINAL, PASSING, verdict(provisional=True)], ids=["refused", "failed", "provisional"])
async def test_missing_or_provisional_verdict_keeps_the_stored_one(said: Verdict | Unclassified) -> None:
    store = MemoryStore()
    store.put_verdict(KEY, verdict(why="old"))
    outcome = await answer(saying(said), store, JudgingOptions(timeout_s=5, fresh=True))
    assert (outcome.verdict, outcome.cached) == (verdict(why="old"), True)
    assert outcome.undecided == (said if isinstance(said, Unclassified) else None)
    assert store.verdicts == {KEY: verdict(why="old")}


async def test_provisional_verdict_of_the_rules_reports_the_failure_as_undecided() -> None:
    guess = verdict(stage="rules", provisional=True, gave_up=PASSING)
    outcome = await answer(saying(guess), MemoryStore())
    assert (outcome.verdict, outcome.undecided) == (guess, PASSING)


async def test_stored_verdict_is_not_reused_for_another_judge() -> None:
    store = MemoryStore()
    await answer(ScriptedJudge(), store)
    other = ScriptedJudge(id="scripted@2")
    assert not (await answer(other, store)).cached
    assert len(store.verdicts) == 2


async def test_access_error_is_raised_and_nothing_is_stored() -> None:
    async def script(_: str) -> None:
        raise AccessError("wrong key")

    store = MemoryStore()
    with pytest.raises(AccessError):
        await answer(ScriptedJudge(script), store)
    assert store.verdicts == {}


async def test_timed_out_failure_is_judged_again_on_the_next_run() -> None:
    async def script(_: str) -> None:
        await asyncio.sleep(60)

    store = MemoryStore()
    outcome = await answer(ScriptedJudge(script), store, JudgingOptions(timeout_s=0.01))
    assert outcome.verdict == Unclassified(reason="no verdict within 0.01 s", judge="scripted@1", cause="service")
    assert (await answer(ScriptedJudge(), store)).verdict == verdict()


async def test_judge_exception_becomes_one_bounded_line_without_secrets() -> None:
    key = "sk-ant-api03-" + "Ab1" * 30

    async def script(_: str) -> None:
        raise ValueError(f"first\nsecond {key} " + "x" * 5000)

    outcome = (await answer(ScriptedJudge(script), MemoryStore())).verdict
    assert isinstance(outcome, Unclassified)
    assert outcome.reason.startswith("the judge broke: ValueError: first second ")
    assert key not in outcome.reason
    assert len(outcome.reason) <= 300
    assert not outcome.final


async def test_exception_while_building_the_key_leaves_the_failure_unclassified() -> None:
    class Keyless(ScriptedJudge):
        def key(self, case: Failure) -> str:
            raise KeyError("no template")

    store = MemoryStore()
    outcome = await answer(Keyless(), store)
    assert isinstance(outcome.verdict, Unclassified)
    assert store.verdicts == {}


async def test_cancelled_error_raised_by_the_judge_is_reported_as_its_error() -> None:
    async def script(_: str) -> None:
        raise asyncio.CancelledError

    outcome = (await answer(ScriptedJudge(script), MemoryStore())).verdict
    assert outcome == Unclassified(reason="the judge broke: CancelledError", judge="scripted@1")


async def test_cancellation_is_propagated() -> None:
    async def script(_: str) -> None:
        await asyncio.sleep(60)

    task = asyncio.create_task(answer(ScriptedJudge(script), MemoryStore()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
