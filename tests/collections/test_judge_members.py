"""Agent runs of a collection as subjects: loaded when judged, and released afterwards."""

import gc
import weakref
from collections.abc import Sequence
from typing import cast

from evalscribe.collections.judge import judge_all
from evalscribe.collections.subjects import pending_subjects
from evalscribe.judging.judges import JudgeOutput, LoadedSubject, not_judged
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.exploration import Member
from evalscribe.model.protocols import Estimate
from evalscribe.model.record import Record
from evalscribe.model.rubric import Rubric
from evalscribe.model.run import Eval, Step
from evalscribe.store.analyses import AnalysisStore
from evalscribe.store.records import RunStore

NUMBER = 1000
RUBRIC = Rubric(id="why", rubric_text="Why?")


class Brief:
    """A judge that reads the whole subject and gives no verdict."""

    id = name = "brief@1"
    rubric = RUBRIC

    def estimate(self, _loaded: LoadedSubject) -> Estimate:
        return Estimate()

    async def judge(self, loaded: LoadedSubject) -> JudgeOutput:
        assert loaded.evidence
        assert "AssertionError" in loaded.subject.text()
        result = not_judged(loaded.subject.id, RUBRIC, self.id, "nothing to say")
        return JudgeOutput(results=(result,), rubrics=(RUBRIC,), subject=loaded.subject, usage=result.usage)


class Counting:
    """A store that creates records on request and counts how many are still in memory."""

    def __init__(self) -> None:
        self.held = weakref.WeakSet[Record]()
        self.peak = 0
        self.read = 0

    def record(self, eval_id: str, *, run_id: str) -> Record | None:
        if eval_id == "e7":
            return None
        failed = Eval(id=eval_id, category="c", name=eval_id, failed_step="tests", reason="AssertionError: 1 != 2")
        log = Document(role="log", path="run.log", text="AssertionError: 1 != 2\n" * 20)
        steps = (Step(name="tests", status="failed"),)
        record = _Weak(run_id=run_id, eval=failed, steps=steps, documents=(log,))
        self.held.add(record)
        self.read += 1
        self.peak = max(self.peak, len(self.held))
        return record

    def get_evidence(self, _run_id: str, _eval_id: str) -> Evidence | None:
        return None


class _Weak(Record):
    """A record hashed by identity, so that each instance is counted."""

    def __hash__(self) -> int:
        return id(self)


class Silent:
    def say(self, line: str, fields: Sequence[str] = ()) -> None: ...


async def test_judging_a_thousand_agent_runs_holds_few_in_memory() -> None:
    store = Counting()
    members = [
        Member(id=f"e{n}", run_id="r", eval=f"c/e{n}", provider="p", model="m", task=f"e{n}", trial=1, status="failed")
        for n in range(NUMBER)
    ]
    subjects = pending_subjects(members, cast(RunStore, store), cast(AnalysisStore, store))
    assert store.read == 0, "nothing is read before its turn"
    gc.collect()
    results = await judge_all(Brief(), tuple(subjects.values()), Silent(), was_cached=lambda _: False)  # type: ignore[arg-type]
    assert store.read == NUMBER - 1
    assert store.peak <= 20
    (gone,) = [one for one in results if one.reason != "nothing to say"]
    assert gone.agent_run_id == "r/c/e7"
    assert "the agent run is not stored" in (gone.reason or "")
