"""Replay failures concurrently. Each replay is stored as soon as it ends, so that it need not be run again."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from evalscribe.model.evidence import Evidence
from evalscribe.model.finding import CORRECTED, REPEAT, Failure, Proof, Replay
from evalscribe.replay.conclusions import conclude, recorded_replays
from evalscribe.replay.grader import NEVER_STARTED, Grader, ReplayJob

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore


def _ignore(*_: object) -> None:
    return None


@dataclass
class Replays:
    """Replays the failures of one run."""

    store: "AnalysisStore"
    run_id: str
    grader: Grader | None
    """The grader; None if nothing can be run.

    Without a grader, only the recorded trials of the reference answers are used.
    """
    repeat: int = REPEAT
    concurrency: int = 2
    """Maximum number of concurrent replays."""
    fresh: bool = False
    """True to run replays again even if their results are stored."""
    on_proof: Callable[[Proof], None] = _ignore
    earlier_proofs: Mapping[str, Proof] = field(default_factory=dict)
    """Proofs from earlier commands, keyed by eval id."""
    refused: dict[str, str] = field(default_factory=dict)
    """Reasons why failures have no proof, keyed by eval id."""
    _running: dict[tuple[str, int], asyncio.Task[Replay]] = field(init=False, default_factory=dict)
    """Replays that were started by this object, keyed by the job's key and the attempt.

    All trials of a task share the replays of the reference answer.
    """
    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(max(1, self.concurrency))

    async def prove(self, cases: Iterable[Callable[[], Failure | None]]) -> tuple[Proof, ...]:
        """Replay failures and store the proofs.

        Args:
            cases: Functions that each load one failure, or return None if the failure cannot be read.

        Returns:
            The proofs in the order of the failures. A failure has no proof if nothing could be run for it.

        Raises:
            UnavailableError: Sandboxes do not work on this machine.
        """
        numbered_cases = enumerate(cases)
        proofs: dict[int, Proof] = {}

        async def work() -> None:
            # All workers take from one iterator.
            for number, load in numbered_cases:
                case = load()
                proof = await self._proof(case) if case else None
                if proof is not None:
                    proof = self._stored(proof)
                    proofs[number] = proof
                    self.on_proof(proof)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(max(1, self.concurrency)):
                    group.create_task(work())
        except BaseExceptionGroup as failed:
            raise _first(failed) from None
        return tuple(proofs[number] for number in sorted(proofs))

    def _stored(self, proof: Proof, tried: Sequence[Replay] = ()) -> Proof:
        """Store a proof together with the replays in `tried` and the stored replays of different grader changes."""
        stored = self.earlier_proofs.get(proof.eval_id)
        stored_replays = stored.replays if stored and stored.evidence == proof.evidence else ()
        changes = {None, CORRECTED, *(replay.change for replay in tried)}
        earlier_replays = (replay for replay in stored_replays if replay.change not in changes)
        proof = proof.model_copy(update={"replays": (*proof.replays, *earlier_replays, *tried)})
        self.store.put_proof(self.run_id, proof)
        return proof

    async def _proof(self, case: Failure) -> Proof | None:
        evidence = case.evidence
        plan = self.grader.plan(evidence) if self.grader else None
        replays = list(recorded_replays(evidence))
        for job in plan.jobs if plan else ():
            if job.answer == "output" and job.change is None and _is_settled(replays):
                break
            replays += await self._run(evidence, job)
        note = plan.note if plan else ""
        if all(replay.broken.startswith(NEVER_STARTED) for replay in replays):
            reason = next((replay.broken for replay in replays), note)
            self.refused[evidence.eval.id] = reason or "nothing says how it is graded"
            return None
        # If there are no jobs, only trials that the run itself recorded are used, so the grader is the same.
        return conclude(case, replays, same_grader=plan.same_grader if plan and plan.jobs else True, note=note)

    async def try_change(self, case: Failure, change: str, changed: Grader) -> Proof | None:
        """Replay a failure with a changed grader, and add these replays to the proof of the failure.

        Args:
            case: The failure.
            change: Description of the change, on one line.
            changed: The grader with the change.

        Returns:
            The proof; None if nothing could be run.
        """
        proof = await self._proof(case)
        after = replace(self, grader=changed)
        tried: list[Replay] = []
        for job in changed.plan(case.evidence).jobs:
            tried += await after._run(case.evidence, job._replace(change=change))
        if proof is None or not tried:
            return None
        return self._stored(proof, tried)

    async def _run(self, evidence: Evidence, job: ReplayJob) -> list[Replay]:
        assert self.grader is not None, "only a grader has jobs"
        times = self.repeat if self.grader.by_chance else 1
        done = await asyncio.gather(*(self._run_once(evidence, job, attempt) for attempt in range(1, times + 1)))
        # If the output has the same content as the reference answer, both share their replays, so set these fields for
        # each.
        answer_fields = {"answer": job.answer, "change": job.change}
        done = [replay.model_copy(update={**answer_fields, "broken": replay.broken or job.doubt}) for replay in done]
        return [replay if replay.passed or replay.broken else self.grader.compare(evidence, replay) for replay in done]

    async def _run_once(self, evidence: Evidence, job: ReplayJob, attempt: int) -> Replay:
        """Return the stored replay of a job. If there is none, run the job once for all failures that need it."""
        key = (job.key, attempt)
        if key not in self._running:
            self._running[key] = asyncio.ensure_future(self._stored_or_run(evidence, job, attempt))
        return await self._running[key]

    async def _stored_or_run(self, evidence: Evidence, job: ReplayJob, attempt: int) -> Replay:
        if not self.fresh and (stored := self.store.replay(job.key, attempt)) is not None:
            return stored
        assert self.grader is not None, "only a grader has jobs"
        async with self._slots:
            done = await self.grader.run(evidence, job, attempt)
        # An inconclusive replay is run again the next time, for example after a missing program was installed.
        if not done.broken:
            self.store.put_replay(job.key, attempt, done)
        return done


def _is_settled(replays: Sequence[Replay]) -> bool:
    """Return whether the reference answer failed. If the reference answer failed, the output need not be run."""
    return any(not replay.passed for replay in replays if replay.answer == "reference" and not replay.broken)


def _first(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    error = failed.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
