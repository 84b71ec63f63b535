"""Run the analysis graph over a queue of failures of any size, with a scripted judge and a store in memory."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from evalscribe.analysis.graph import open_checkpoints, run_graph
from evalscribe.judging.verdicts import Counts, JudgeQueue
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import Evidence, FailureFingerprint, PackedEvidence, UnreadableEvidence
from evalscribe.model.finding import (
    Failure,
    FailureGroup,
    Finding,
    HumanLabel,
    RunningAnalysis,
    Unclassified,
    Verdict,
)
from evalscribe.model.protocols import Estimate
from evalscribe.model.repository import Patch, Proposal, StoredReport
from evalscribe.model.run import Eval, Run
from evalscribe.reports.history import ReportHistory

Script = Callable[[str], Awaitable[Verdict | Unclassified | None]]
"""Returns the judge's verdict for the path of an eval; None for a default verdict."""


def verdict(judge: str = "scripted@1", **fields: object) -> Verdict:
    plain = {"classification": "MODEL_FAULT", "cause": "some-cause", "cause_kind": "model", "confidence": 0.9}
    text = {"error": "TypeError: x", "why": "wrong", "reasoning": "It is wrong.", "judge": judge}
    return Verdict.model_validate({**plain, **text, "usage": Usage(calls=1, input_tokens=10), **fields})


async def no_delay(_: str) -> None:
    """Answer without delay. Used as the script of a judge."""


class ScriptedJudge:
    """A judge that answers as scripted.

    It records the evals in its questions and the number of concurrent questions.
    """

    def __init__(self, script: Script = no_delay, id: str = "scripted@1") -> None:
        self.id = id
        self.asked: Counter[str] = Counter()
        self.peak = 0
        self._under_way = 0
        self._script = script

    def key(self, case: Failure) -> str:
        return f"{self.id} {case.evidence.eval.path}"

    def estimate(self, case: Failure) -> Estimate:
        return Estimate()

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        path = case.evidence.eval.path
        self.asked[path] += 1
        self._under_way += 1
        self.peak = max(self.peak, self._under_way)
        try:
            return await self._script(path) or verdict(self.id)
        finally:
            self._under_way -= 1


class MemoryStore:
    """A store that keeps its data in memory."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.evidences: dict[tuple[str, str], Evidence | UnreadableEvidence] = {}
        self.verdicts: dict[str, Verdict | Unclassified] = {}
        self.reports: dict[str, StoredReport] = {}
        self.findings: dict[str, tuple[FindingSummary, ...]] = {}
        self.seen: dict[str, tuple[FailureFingerprint, ...]] = {}
        self.given: dict[str, tuple[HumanLabel, ...]] = {}
        self.proposals: dict[str, Proposal] = {}
        self.approvals: dict[tuple[str, str], str] = {}
        self.analyses: dict[str, tuple[RunningAnalysis, tuple[Finding, ...]]] = {}

    def put_run(self, run: Run) -> None:
        self.runs[run.id] = run

    def get_run(self, run_id: str) -> Run | None:
        return self.runs.get(run_id)

    def run_ids(self, prefix: str = "") -> tuple[str, ...]:
        return tuple(sorted(run_id for run_id in self.runs if run_id.startswith(prefix)))

    def put_running(self, analysis: RunningAnalysis, findings: Sequence[Finding] = (), first: int = 1) -> None:
        before = self.analyses.get(analysis.run_id, (analysis, ()))[1]
        self.analyses[analysis.run_id] = (analysis, (*before[: first - 1], *(findings or before[first - 1 :])))

    def end_running(self, run_id: str) -> None:
        self.analyses.pop(run_id, None)

    def running(self) -> tuple[RunningAnalysis, ...]:
        return tuple(self.analyses[run_id][0] for run_id in sorted(self.analyses))

    def judged(self, run_id: str, after: int, most: int) -> tuple[Finding, ...]:
        return self.analyses[run_id][1][after : after + most] if run_id in self.analyses else ()

    def put_evidence(self, run_id: str, evidence: Evidence | UnreadableEvidence) -> None:
        self.evidences[run_id, evidence.eval.id] = evidence

    def get_evidence(self, run_id: str, eval_id: str) -> Evidence | UnreadableEvidence | None:
        return self.evidences.get((run_id, eval_id))

    def put_verdict(self, key: str, verdict: Verdict | Unclassified) -> None:
        if isinstance(verdict, Verdict) or not isinstance(self.verdicts.get(key), Verdict):
            self.verdicts[key] = verdict

    def get_verdict(self, key: str) -> Verdict | Unclassified | None:
        return self.verdicts.get(key)

    def put_report(self, run_id: str, report: StoredReport) -> None:
        self.reports[run_id] = report

    def get_report(self, run_id: str) -> StoredReport | None:
        return self.reports.get(run_id)

    def put_findings(self, run_id: str, findings: Sequence[FindingSummary]) -> None:
        self.findings[run_id] = tuple(findings)

    def put_sightings(self, run_id: str, sightings: Sequence[FailureFingerprint]) -> None:
        self.seen[run_id] = tuple(sightings)

    def sightings(self, run_id: str) -> tuple[FailureFingerprint, ...]:
        return self.seen.get(run_id, ())

    def put_labels(self, labels: Mapping[str, Sequence[HumanLabel]]) -> None:
        self.given |= {run_id: tuple(given) for run_id, given in labels.items()}

    def labels(self) -> tuple[HumanLabel, ...]:
        return tuple(label for _, given in sorted(self.given.items()) for label in given)

    def put_proposal(self, key: str, proposal: Proposal) -> None:
        self.proposals[key] = proposal

    def proposal(self, key: str) -> Proposal | None:
        return self.proposals.get(key)

    def request_approval(self, patch: Patch) -> bool:
        before = self.approvals.get((patch.run, patch.recommendation))
        self.approvals[patch.run, patch.recommendation] = patch.digest
        return before not in (None, patch.digest)

    def take_approval(self, patch: Patch) -> bool:
        asked = self.approvals.get((patch.run, patch.recommendation)) == patch.digest
        if asked:
            self.drop_approval(patch)
        return asked

    def drop_approval(self, patch: Patch) -> None:
        self.approvals.pop((patch.run, patch.recommendation), None)

    def lock(self, run_id: str) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        """Do nothing, because the store has no open resources."""


def make_run(count: int, id: str = "run1") -> Run:
    failures = tuple(Eval(id=f"e{n}", category="basics", name=f"{n:05}") for n in range(count))
    return Run(id=id, provider="example", model="m", failed=count, total=count, failures=failures)


def make_groups(run: Run) -> tuple[FailureGroup, ...]:
    return tuple(FailureGroup(id=f"g-{eval.id}", eval_ids=(eval.id,)) for eval in run.failures)


def make_failures(run: Run) -> Callable[[FailureGroup], Failure]:
    evals = {eval.id: eval for eval in run.failures}

    def case_of(group: FailureGroup) -> Failure:
        return Failure(evidence=Evidence(eval=evals[group.eval_ids[0]]), packed=PackedEvidence(excerpts=()))

    return case_of


def slow_script(seconds: float) -> Script:
    async def script(_: str) -> None:
        await asyncio.sleep(seconds)

    return script


@dataclass
class QueueStages:
    """Stages of an analysis whose failures are already prepared. They write no report."""

    queue: JudgeQueue

    async def load(self) -> Run:
        return self.queue.run

    async def history(self) -> ReportHistory:
        return ReportHistory()

    async def prepare(self) -> JudgeQueue:
        return self.queue

    async def collate(self) -> tuple[Finding, ...]:
        return self.queue.findings()

    async def write(self) -> str | None:
        return None


@dataclass
class Outcome:
    findings: tuple[Finding, ...]
    counts: Counts


async def judge_groups(queue: JudgeQueue, place: Path | str) -> Outcome:
    """Judge every group of the queue with the graph that analyses runs, and return the findings."""
    counts = await run_graph(QueueStages(queue), queue.run.id, place)
    return Outcome(findings=queue.findings(), counts=counts)


async def last_state(place: Path | str, thread: str = "run1") -> dict[str, object]:
    async with open_checkpoints(place) as saver:
        found = await saver.aget_tuple({"configurable": {"thread_id": thread}})
        assert found is not None
        return found.checkpoint["channel_values"]
