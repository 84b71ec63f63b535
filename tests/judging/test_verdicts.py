"""One failure, one answer: what the store knows is not asked, and what goes wrong is a value."""

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


async def test_so_is_a_reason_why_there_is_none() -> None:
    store = MemoryStore()
    assert await answer(saying(PASSING), store) == FailureVerdict(verdict=PASSING, undecided=PASSING)
    assert store.verdicts == {KEY: PASSING}


@pytest.mark.parametrize(("known", "asked"), [(verdict(), 0), (FINAL, 0), (PASSING, 1), (None, 1)])
async def test_what_is_settled_is_not_asked_again(known: Verdict | Unclassified | None, asked: int) -> None:
    judge, store = ScriptedJudge(), MemoryStore()
    if known is not None:
        store.put_verdict(KEY, known)
    given = await answer(judge, store)
    assert sum(judge.asked.values()) == asked
    assert given.cached == (asked == 0)
    assert given.verdict == (verdict() if asked else known)


async def test_fresh_asks_whatever_is_known() -> None:
    store = MemoryStore()
    store.put_verdict(KEY, verdict(why="old"))
    given = await answer(ScriptedJudge(), store, JudgingOptions(timeout_s=5, fresh=True))
    assert given == FailureVerdict(verdict=verdict())
    assert store.verdicts == {KEY: verdict()}


@pytest.mark.parametrize("said", [FINAL, PASSING, verdict(provisional=True)], ids=["refused", "failed", "provisional"])
async def test_missing_verdict_keeps_the_stored_one(said: Verdict | Unclassified) -> None:
    store = MemoryStore()
    store.put_verdict(KEY, verdict(why="old"))
    given = await answer(saying(said), store, JudgingOptions(timeout_s=5, fresh=True))
    assert (given.verdict, given.cached) == (verdict(why="old"), True)
    assert given.undecided == (said if isinstance(said, Unclassified) else None)
    assert store.verdicts == {KEY: verdict(why="old")}


async def test_rules_guess_in_place_of_a_model_is_no_decision() -> None:
    guess = verdict(stage="rules", provisional=True, gave_up=PASSING)
    given = await answer(saying(guess), MemoryStore())
    assert (given.verdict, given.undecided) == (guess, PASSING)


async def test_another_judge_is_another_question() -> None:
    store = MemoryStore()
    await answer(ScriptedJudge(), store)
    other = ScriptedJudge(id="scripted@2")
    assert not (await answer(other, store)).cached
    assert len(store.verdicts) == 2


async def test_what_concerns_all_is_raised_and_nothing_is_stored() -> None:
    async def script(_: str) -> None:
        raise AccessError("wrong key")

    store = MemoryStore()
    with pytest.raises(AccessError):
        await answer(ScriptedJudge(script), store)
    assert store.verdicts == {}


async def test_a_time_out_is_asked_again_on_the_next_run() -> None:
    async def script(_: str) -> None:
        await asyncio.sleep(60)

    store = MemoryStore()
    given = await answer(ScriptedJudge(script), store, JudgingOptions(timeout_s=0.01))
    assert given.verdict == Unclassified(reason="no verdict within 0.01 s", judge="scripted@1", cause="service")
    assert (await answer(ScriptedJudge(), store)).verdict == verdict()


async def test_a_bug_of_the_judge_is_told_in_one_bounded_line_without_secrets() -> None:
    key = "sk-ant-api03-" + "Ab1" * 30

    async def script(_: str) -> None:
        raise ValueError(f"first\nsecond {key} " + "x" * 5000)

    given = (await answer(ScriptedJudge(script), MemoryStore())).verdict
    assert isinstance(given, Unclassified)
    assert given.reason.startswith("the judge broke: ValueError: first second ")
    assert key not in given.reason
    assert len(given.reason) <= 300
    assert not given.final


async def test_a_bug_before_there_is_a_question() -> None:
    class Keyless(ScriptedJudge):
        def key(self, case: Failure) -> str:
            raise KeyError("no template")

    store = MemoryStore()
    given = await answer(Keyless(), store)
    assert isinstance(given.verdict, Unclassified)
    assert store.verdicts == {}


async def test_a_judge_that_says_it_was_cancelled_when_nobody_did() -> None:
    async def script(_: str) -> None:
        raise asyncio.CancelledError

    given = (await answer(ScriptedJudge(script), MemoryStore())).verdict
    assert given == Unclassified(reason="the judge broke: CancelledError", judge="scripted@1")


async def test_a_cancellation_goes_through() -> None:
    async def script(_: str) -> None:
        await asyncio.sleep(60)

    task = asyncio.create_task(answer(ScriptedJudge(script), MemoryStore()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
