"""Score a run again, without trying anything again: new scores supersede the old ones, which stay to be seen."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

from evalscribe.app.experiments.archive import archived
from evalscribe.app.experiments.find import experiment_of, require_ended, version_named, version_of_run
from evalscribe.app.experiments.kept import KeptTry, kept_tries
from evalscribe.app.experiments.tools import open_models, open_scorers
from evalscribe.errors import UnavailableError, UsageError
from evalscribe.experiments.scoring import ScorerPanel, to_score_result, to_stored_score, trial_verdict
from evalscribe.ids import Frozen
from evalscribe.model.experiment import ExperimentRun, ExperimentVersion, ItemVerdict
from evalscribe.model.experiment_storage import ScorerRunner
from evalscribe.model.score import Score, ScoreEvidence
from evalscribe.workspace import Workspace

AT_ONCE = 50
"""Tries whose new scores are stored in one go."""


class Rescored(Frozen):
    """What came of it."""

    run: ExperimentRun
    tries: int
    scores: int
    changed: int
    """How many verdicts are others now."""


class RescoreWatcher(Protocol):
    def rescored(self, done: int, total: int) -> None: ...


Open = Callable[[Workspace, ExperimentRun, ExperimentVersion], AbstractAsyncContextManager[Sequence[ScorerRunner]]]
"""Every scorer of a version. Raises `EvalscribeError` where they cannot be had."""


class _New(NamedTuple):
    scores: tuple[tuple[Score, ScoreEvidence], ...]
    item_id: str
    before: ItemVerdict
    after: ItemVerdict


@asynccontextmanager
async def _with_own_models(
    workspace: Workspace, run: ExperimentRun, version: ExperimentVersion
) -> AsyncIterator[Sequence[ScorerRunner]]:
    """The scorers of a version, which spend what the settings allow."""
    async with open_models(workspace) as models, open_scorers(workspace, version, models, run.concurrency) as runners:
        yield runners


async def rescored(
    workspace: Workspace,
    run: ExperimentRun,
    watcher: RescoreWatcher,
    *,
    scorers: Sequence[str] = (),
    reason: str | None = None,
    version: str | None = None,
    runners: Open = _with_own_models,
) -> Rescored:
    """Score a run again. What was stored is kept, whatever ends it; to do it again begins anew.

    Args:
        workspace: Where the run is; its settings say what models may cost.
        run: One that has ended.
        watcher: Hears how it goes.
        scorers: Names of bindings; none for all of them.
        reason: Stands beside the new scores.
        version: Id or number of the experiment's version whose scorers are used; None for the run's own.
        runners: Opens the scorers of a version.

    Raises:
        UsageError: The run has not ended, or there is no such scorer.
        UnavailableError: Somebody works on the run.
    """
    require_ended(run, "it can be scored again when it has ended")
    by = _version(workspace, run, version)
    chosen = _chosen(by, scorers)
    with workspace.store.experiment_runs.claim(run.id) as mine:
        if not mine:
            raise UnavailableError(f"run {run.id} is being worked on, by {run.worker or 'another process'}")
        async with runners(workspace, run, by) as opened:
            panel = ScorerPanel(by.bindings, [one for one in opened if one.name in chosen])
            job = _Job(workspace, run, by, panel, reason)
            told = await job.done(watcher)
        await archived(workspace, run, by, run.state, run.reason)
    return told.model_copy(update={"run": workspace.store.experiment_runs.run(run.id) or run})


def _version(workspace: Workspace, run: ExperimentRun, named: str | None) -> ExperimentVersion:
    if named is None:
        return version_of_run(workspace, run)
    return version_named(workspace, experiment_of(workspace, run), named)


def _chosen(version: ExperimentVersion, wanted: Sequence[str]) -> frozenset[str]:
    """Names of the scorers that score again."""
    there = [binding.spec.name for binding in version.bindings]
    if unknown := [name for name in wanted if name not in there]:
        raise UsageError(f"--scorer {unknown[0]!r} is none of version {version.number}; there is: {', '.join(there)}")
    return frozenset(wanted or there)


@dataclass(frozen=True)
class _Job:
    workspace: Workspace
    run: ExperimentRun
    version: ExperimentVersion
    panel: ScorerPanel
    reason: str | None

    async def done(self, watcher: RescoreWatcher) -> Rescored:
        tries = scores = changed = 0
        total = sum(self.workspace.store.experiment_runs.tally(self.run.id).values())
        kept = kept_tries(self.workspace, self.run)
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
        return Rescored(run=self.run, tries=tries, scores=scores, changed=changed)

    async def _scored(self, batch: Sequence[KeptTry]) -> list[_New]:
        lanes = asyncio.Semaphore(self.run.concurrency)

        async def one(each: KeptTry) -> _New:
            async with lanes:
                return await self._again(each)

        return list(await asyncio.gather(*map(one, batch)))

    async def _again(self, kept: KeptTry) -> _New:
        """A try without an answer has no scores, before and after."""
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
