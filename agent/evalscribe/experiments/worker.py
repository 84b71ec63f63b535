"""Work on a run until it ends, and score a finished run again."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol

from evalscribe.errors import DataError, EvalscribeError, UnavailableError, UsageError
from evalscribe.experiments.archive import ContinuousRunArchive, RunArchive, archive_run
from evalscribe.experiments.lookup import (
    StoredTrial,
    experiment_of,
    numbered_items,
    require_ended,
    run_named,
    stored_trials,
    version_named,
    version_of_run,
)
from evalscribe.experiments.scoring import ScorerPanel, to_score_result, to_stored_score, trial_verdict
from evalscribe.experiments.tools import TrialTools, open_models, open_scorers, open_tools
from evalscribe.experiments.trials import CompletedTrial, TrialRequest, TrialRunner, mark_unstorable, run_trials
from evalscribe.ids import Frozen
from evalscribe.model.experiment import ExperimentRun, ExperimentVersion, ItemVerdict, RunState
from evalscribe.model.experiment_storage import ScorerRunner
from evalscribe.model.score import Score, ScoreEvidence
from evalscribe.redaction.redact import redact
from evalscribe.text import dollars, one_line
from evalscribe.workspace import Workspace

BEAT_S = 0.2
"""Seconds between heartbeats, which also check for cancellation."""
CLAIM_S = 3.0
"""Seconds that a previous worker of the run may take to release its claim."""


OpenTools = Callable[
    [Workspace, ExperimentRun, ExperimentVersion, float | None], AbstractAsyncContextManager[TrialTools]
]
"""Function that opens the tools of a run within a budget in US dollars. Raises `EvalscribeError`."""


async def work_on_run(
    workspace: Workspace, run_id: str, *, worker: str | None = None, tools: OpenTools = open_tools
) -> ExperimentRun:
    """Do the remaining work of a run in this process and return the ended run.

    An error that concerns all trials ends it as failed, with the reason, and it can be resumed. Cancelled (by a signal)
    it
    leaves the run resumable.

    Args:
        workspace: Workspace of the run; its options limit the cost of models.
        run_id: Id of the run.
        worker: Name of the worker; None for `host:pid` of this process.
        tools: Opens the target and the scorers.

    Raises:
        UnavailableError: Another process works on it.
    """
    run = run_named(workspace, run_id)
    with ExitStack() as held:
        await _claim(workspace, run, held)
        run = run_named(workspace, run.id)
        if run.terminal:
            return run
        if run.cancelling:
            return workspace.store.experiment_runs.end(run.id, "cancelled", workspace.now())
        worker = worker or f"{socket.gethostname()}:{os.getpid()}"
        run = workspace.store.experiment_runs.begin(run.id, worker, workspace.now())
        return await _Worker(workspace, run, version_of_run(workspace, run), tools).run()


async def _claim(workspace: Workspace, run: ExperimentRun, held: ExitStack) -> None:
    deadline = asyncio.get_running_loop().time() + CLAIM_S
    while True:
        with ExitStack() as tried:
            if tried.enter_context(workspace.store.experiment_runs.claim(run.id)):
                held.push(tried.pop_all())
                return
        if asyncio.get_running_loop().time() > deadline:
            raise UnavailableError(f"run {run.id} already has a worker: {run.worker or 'another process'}")
        await asyncio.sleep(BEAT_S)


class _Worker:
    def __init__(self, workspace: Workspace, run: ExperimentRun, version: ExperimentVersion, tools: OpenTools) -> None:
        self._workspace = workspace
        self._run = run
        self._version = version
        self._tools = tools
        self._spent = workspace.store.experiment_runs.spent(run.id)
        self._along: ContinuousRunArchive | None = None
        """None if an earlier worker ran some of the trials; then all are archived at the end."""

    async def run(self) -> ExperimentRun:
        try:
            if await self._alive(self._tries(), heed=True):
                return await self._ended("cancelled", None)
            if self._penniless and self._unfinished:
                return await self._ended("failed", self._short_of_money())
            await self._alive(self._archived("completed", None), heed=False)
            return self._workspace.store.experiment_runs.end(self._run.id, "completed", self._workspace.now())
        except EvalscribeError as error:
            return await self._ended("failed", one_line(redact(str(error))))
        except asyncio.CancelledError:
            self._end("failed", f"interrupted: continue with `evalscribe experiments runs resume {self._run.id}`")
            raise
        except Exception as error:
            self._end("failed", f"this is a bug: {type(error).__name__}: {one_line(redact(str(error)))[:200]}")
            raise

    async def _alive(self, main: Coroutine[Any, Any, None], *, heed: bool) -> bool:
        """Run `main` with heartbeats. Returns True if it was cancelled on request before it finished."""
        tasks = [asyncio.ensure_future(main), asyncio.ensure_future(self._beat(heed=heed))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        work, beat = tasks
        if work.cancelled():
            beat.result()
            return True
        work.result()
        return False

    async def _beat(self, *, heed: bool) -> None:
        """Send heartbeats until cancellation is requested."""
        while True:
            if self._workspace.store.experiment_runs.beat(self._run.id, self._workspace.now()) and heed:
                return
            await asyncio.sleep(BEAT_S)

    async def _tries(self) -> None:
        async with self._tools(self._workspace, self._run, self._version, self._left) as tools:
            bench = TrialRunner(
                target=tools.target,
                panel=ScorerPanel(self._version.bindings, tools.scorers),
                bindings=self._version.bindings,
                timeout_s=self._version.config.timeout_s,
                now=self._workspace.now,
            )
            await run_trials(bench, self._left_to_try(), self._run.concurrency, self._keep)

    def _left_to_try(self) -> Iterator[TrialRequest]:
        """Yield trials that are not stored yet, until the budget is spent."""
        done = self._workspace.store.experiment_runs.done(self._run.id)
        if not done:
            self._along = ContinuousRunArchive(RunArchive(self._workspace, self._run, self._version))
        for number, item in numbered_items(self._workspace, self._run):
            for repetition in range(1, self._run.repetitions + 1):
                if (item.key, repetition) not in done:
                    if self._penniless:
                        return
                    one = TrialRequest(self._run.id, item, number, repetition)
                    if self._along:
                        self._along.begun(one)
                    yield one

    def _keep(self, done: CompletedTrial) -> None:
        try:
            self._workspace.store.experiment_runs.put(done.attempt, done.scores)
        except DataError as error:
            without = mark_unstorable(done, one_line(str(error)))
            self._workspace.store.experiment_runs.put(without.attempt, without.scores)
            self._archive(without)
        else:
            self._archive(done)
        self._spent += done.cost_usd

    def _archive(self, done: CompletedTrial) -> None:
        if self._along:
            self._along.done(done.attempt, tuple(score for score, _ in done.scores))

    @property
    def _left(self) -> float | None:
        """Return the remaining budget in US dollars."""
        budget = self._run.budget_usd
        return None if budget is None else max(0.0, budget - self._spent)

    @property
    def _penniless(self) -> bool:
        """True if the budget is spent. A run without cost needs no budget."""
        return self._left == 0 and self._spent > 0

    @property
    def _unfinished(self) -> bool:
        return sum(self._workspace.store.experiment_runs.tally(self._run.id).values()) < self._run.tries

    def _short_of_money(self) -> str:
        return (
            f"the budget of {dollars(self._run.budget_usd or 0)} is spent ({dollars(self._spent)}): "
            f"`evalscribe experiments runs resume {self._run.id} --budget USD` continues with a larger budget"
        )

    async def _ended(self, state: RunState, reason: str | None) -> ExperimentRun:
        """End the run. Its trials are also archived, so that it can be analysed."""
        run = self._end(state, reason)
        if self._workspace.store.experiment_runs.tally(run.id):
            await self._archived(state, reason)
        return run

    async def _archived(self, state: RunState, reason: str | None) -> None:
        if self._along:
            self._along.end(state, reason)
        else:
            await archive_run(self._workspace, self._run, self._version, state, reason)

    def _end(self, state: RunState, reason: str | None) -> ExperimentRun:
        return self._workspace.store.experiment_runs.end(self._run.id, state, self._workspace.now(), reason)


AT_ONCE = 50
"""Trials whose new scores are stored at once."""


class RescoreResult(Frozen):
    """Result of scoring a run again."""

    run: ExperimentRun
    tries: int
    scores: int
    changed: int
    """Number of verdicts that changed."""


class RescoreWatcher(Protocol):
    def rescored(self, done: int, total: int) -> None: ...


OpenScorers = Callable[
    [Workspace, ExperimentRun, ExperimentVersion], AbstractAsyncContextManager[Sequence[ScorerRunner]]
]
"""Function that opens every scorer of a version. Raises `EvalscribeError`."""


class _New(NamedTuple):
    scores: tuple[tuple[Score, ScoreEvidence], ...]
    item_id: str
    before: ItemVerdict
    after: ItemVerdict


@asynccontextmanager
async def _with_own_models(
    workspace: Workspace, run: ExperimentRun, version: ExperimentVersion
) -> AsyncIterator[Sequence[ScorerRunner]]:
    """Open the scorers of a version within the cost limit of the settings."""
    async with open_models(workspace) as models, open_scorers(workspace, version, models, run.concurrency) as runners:
        yield runners


async def rescore_run(
    workspace: Workspace,
    run: ExperimentRun,
    watcher: RescoreWatcher,
    *,
    scorers: Sequence[str] = (),
    reason: str | None = None,
    version: str | None = None,
    runners: OpenScorers = _with_own_models,
) -> RescoreResult:
    """Score a run again. New scores stay stored whatever ends it; another call starts from the beginning.

    Args:
        workspace: Workspace of the run; its settings limit the cost of models.
        run: A run that has ended.
        watcher: Receives progress.
        scorers: Names of bindings; empty for all.
        reason: Reason stored with the new scores.
        version: Id or number of the experiment's version whose scorers are used; None for the run's own.
        runners: Opens the scorers of a version.

    Raises:
        UsageError: The run has not ended, or there is no such scorer.
        UnavailableError: Another process is working on the run.
    """
    require_ended(run, "it can be scored again once it has ended")
    by = _version(workspace, run, version)
    chosen = _chosen(by, scorers)
    with workspace.store.experiment_runs.claim(run.id) as mine:
        if not mine:
            raise UnavailableError(f"run {run.id} already has a worker: {run.worker or 'another process'}")
        async with runners(workspace, run, by) as opened:
            panel = ScorerPanel(by.bindings, [one for one in opened if one.name in chosen])
            job = _Job(workspace, run, by, panel, reason)
            told = await job.done(watcher)
        await archive_run(workspace, run, by, run.state, run.reason)
    return told.model_copy(update={"run": workspace.store.experiment_runs.run(run.id) or run})


def _version(workspace: Workspace, run: ExperimentRun, named: str | None) -> ExperimentVersion:
    if named is None:
        return version_of_run(workspace, run)
    return version_named(workspace, experiment_of(workspace, run), named)


def _chosen(version: ExperimentVersion, wanted: Sequence[str]) -> frozenset[str]:
    """Return the names of the scorers to run again."""
    there = [binding.spec.name for binding in version.bindings]
    if unknown := [name for name in wanted if name not in there]:
        raise UsageError(f"--scorer {unknown[0]!r} is not in version {version.number}; scorers: {', '.join(there)}")
    return frozenset(wanted or there)


@dataclass(frozen=True)
class _Job:
    workspace: Workspace
    run: ExperimentRun
    version: ExperimentVersion
    panel: ScorerPanel
    reason: str | None

    async def done(self, watcher: RescoreWatcher) -> RescoreResult:
        tries = scores = changed = 0
        total = sum(self.workspace.store.experiment_runs.tally(self.run.id).values())
        kept = stored_trials(self.workspace, self.run)
        while batch := list(islice(kept, AT_ONCE)):
            news = await self._scored(batch)
            self.workspace.store.experiment_runs.rescore(
                self.run.id,
                [score for new in news for score in new.scores],
                {new.item_id: new.after for new in news if new.after != new.before},
            )
            tries += len(news)
            scores += sum(len(new.scores) for new in news)
            changed += sum(new.after != new.before for new in news)
            watcher.rescored(tries, total)
        return RescoreResult(run=self.run, tries=tries, scores=scores, changed=changed)

    async def _scored(self, batch: Sequence[StoredTrial]) -> list[_New]:
        lanes = asyncio.Semaphore(self.run.concurrency)

        async def one(each: StoredTrial) -> _New:
            async with lanes:
                return await self._again(each)

        return list(await asyncio.gather(*map(one, batch)))

    async def _again(self, kept: StoredTrial) -> _New:
        """Score a trial again. A trial without output has no scores."""
        item = kept.attempt.item
        if item.status != "ok":
            return _New((), item.id, item.verdict, "error")
        before = {score.scorer: score for score in kept.scores}
        peers = {name: to_score_result(score) for name, score in before.items()}
        said = await self.panel.scored(kept.item, kept.attempt, peers)
        results = peers | {one.binding.spec.name: one.result for one in said}
        now = self.workspace.now()
        scores = []
        for one in said:
            old = before.get(one.binding.spec.name)
            scores.append(to_stored_score(one, item, now, supersedes=old.id if old else None, reason=self.reason))
        return _New(tuple(scores), item.id, item.verdict, trial_verdict("ok", results, self.version.bindings))
