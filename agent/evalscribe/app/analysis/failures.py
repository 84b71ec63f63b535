"""The stages before the report: read the failures of a run, put them in groups, and queue them for the judge."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property

from evalscribe.app.analysis.labels import Labels, labels_for
from evalscribe.app.judging.builder import Analyst, JudgeBuilder
from evalscribe.app.judging.workers import afar
from evalscribe.app.runs import open_run
from evalscribe.app.sightings import elsewhere
from evalscribe.app.watcher import Watcher
from evalscribe.evidence.same_failure import OtherRuns, compact_failure
from evalscribe.failures.pack import case_of
from evalscribe.failures.prepare import fetch_evidence, group_failures
from evalscribe.judging.verdicts import TIMEOUT_S, Judged, JudgeQueue
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import FailureFingerprint, GatheredEvidence, PreparedFailure, UnreadableEvidence
from evalscribe.model.finding import CrossModelFailures, Failure, FailureGroup, Finding, Verdict
from evalscribe.model.protocols import RunSource
from evalscribe.model.run import Eval, Run
from evalscribe.reports.history import ReportHistory, load_history
from evalscribe.reports.placement import folder_of
from evalscribe.text import join_first
from evalscribe.workspace import Workspace

BATCH_WORKERS = 500
"""Failures whose questions wait for the same batch."""
MOST_NAMED = 8
"""Most evals named in a `Missing:` phrase that concerns only part of a group."""
Spent = Mapping[str, Usage]
"""Usage by stage, in the order of their first calls."""


@dataclass(frozen=True)
class PreparedRun:
    """The failures of a run in groups; their evidence is in the store."""

    workspace: Workspace
    analyst: Analyst
    run: Run
    history: ReportHistory
    groups: tuple[FailureGroup, ...]
    digests: tuple[str, ...]
    """Content ids of the evidence, in the order of the run's failures."""
    sightings: tuple[FailureFingerprint, ...]
    """In the order of the run's failures."""
    elsewhere: OtherRuns
    labels: Labels
    missing: Mapping[str, tuple[str, ...]]
    """Evidence that the source no longer has, by eval id."""
    computed: Mapping[str, bytes]
    """`PreparedFailure` of the first member of each group, compressed, by eval id."""

    def case(self, group: FailureGroup) -> Failure | UnreadableEvidence:
        """The case of the member that stands for a group, read from the store."""
        eval = self._evals[group.eval_ids[0]]
        found = self.workspace.store.analyses.get_evidence(self.run.id, eval.id)
        if found is None:
            return UnreadableEvidence(eval=eval, reason="its evidence is no longer in the store")
        if isinstance(found, UnreadableEvidence):
            return found
        data = self.computed.get(eval.id)
        case = case_of(found, PreparedFailure.decompress(data) if data else None)
        past = {"precedents": self.history.precedents.get(eval.path, ()), "across": self.across(group.eval_ids)}
        return self.labels.recalled(case.model_copy(update=past), self._sighted[eval.id])

    def across(self, eval_ids: Iterable[str]) -> CrossModelFailures | None:
        """What other models' runs say of failures with one verdict; None where it is not the same for all of them."""
        first, *others = (self._across(eval_id) for eval_id in eval_ids)
        return first if all(other == first for other in others) else None

    def _across(self, eval_id: str) -> CrossModelFailures | None:
        return self.elsewhere.across(compact_failure(self._sighted[eval_id]))

    @cached_property
    def _sighted(self) -> dict[str, FailureFingerprint]:
        return {sighting.eval_id: sighting for sighting in self.sightings}

    @cached_property
    def _evals(self) -> dict[str, Eval]:
        return {eval.id: eval for eval in self.run.failures}

    def knows(self, case: Failure) -> bool:
        """Whether the store has this judge's verdict on the case."""
        known = self.workspace.store.analyses.get_verdict(self.analyst.judge.key(case))
        return isinstance(known, Verdict) and not known.provisional


def _with_steps(run: Run, gathered: Iterable[GatheredEvidence]) -> Run:
    """Fill in failed steps that only the evidence names."""
    steps = {one.eval_id: one.failed_step for one in gathered}
    failures = tuple(
        eval if eval.failed_step else eval.model_copy(update={"failed_step": steps.get(eval.id)})
        for eval in run.failures
    )
    return run.model_copy(update={"failures": failures})


def past_reports(workspace: Workspace, run: Run) -> ReportHistory:
    """Read the earlier reports on the run's model."""
    files = workspace.reports.of_model(run.provider, run.model, run.id)
    return load_history(files, run, folder_of(run, files))


@asynccontextmanager
async def opened(
    workspace: Workspace,
    run: str,
    watcher: Watcher,
    *,
    rubric: str | None = None,
    cascade: bool = False,
    provider: str | None = None,
    model: str | None = None,
) -> AsyncIterator[tuple[Analyst, RunSource]]:
    """Open the judge and the run's source. A missing key is reported before the run is read or a store is created."""
    async with afar(workspace) as workers:
        builder = JudgeBuilder(workspace, workers)
        models = builder.models(cascade=cascade)
        async with open_run(workspace, run, watcher, provider=provider, model=model) as source:
            yield builder.analyst(models, rubric, fresh=workspace.options.fresh), source


async def prepare(
    workspace: Workspace, analyst: Analyst, source: RunSource, run: Run, past: ReportHistory, watcher: Watcher
) -> PreparedRun:
    """Read the evidence of every failure into the store, and compare the failures with those of other runs."""
    gathered = await fetch_evidence(source, run, workspace.store.analyses, watcher.fetched)
    run = _with_steps(run, gathered)
    seen = tuple(one.sighting for one in gathered if one.sighting)
    grouped = group_failures(gathered)
    first = {group.eval_ids[0] for group in grouped}
    return PreparedRun(
        workspace=workspace,
        analyst=analyst,
        run=run,
        history=past,
        groups=grouped,
        digests=tuple(one.digest for one in gathered),
        sightings=seen,
        elsewhere=await asyncio.to_thread(elsewhere, workspace.store.analyses, run, seen),
        labels=await asyncio.to_thread(labels_for, workspace.store.analyses, run, past),
        missing={one.eval_id: one.missing for one in gathered if one.missing},
        computed={one.eval_id: one.prepared for one in gathered if one.prepared and one.eval_id in first},
    )


def judge_queue(prepared: PreparedRun, on_event: Callable[[Judged], None]) -> JudgeQueue:
    """Queue the groups for the judge; what the store knows is not asked again unless `--fresh`."""
    workspace = prepared.workspace
    batch = workspace.options.batch
    return JudgeQueue(
        run=prepared.run,
        groups=prepared.groups,
        case_of=prepared.case,
        judge=prepared.analyst.judge,
        store=workspace.store.analyses,
        concurrency=BATCH_WORKERS if batch else workspace.settings.concurrency.value,
        timeout_s=None if batch else TIMEOUT_S,
        fresh=workspace.options.fresh,
        on_event=on_event,
    )


def with_context(prepared: PreparedRun, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Add to each finding what other models' runs say of it, and which evidence was missing."""
    return tuple(
        finding.model_copy(
            update={
                "across": prepared.across(eval.id for eval in finding.evals),
                "missing": tuple(_missing(finding.evals, prepared.missing)),
            }
        )
        for finding in findings
    )


def _missing(evals: tuple[Eval, ...], missing: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Evidence that the source no longer has; a phrase that applies to only some of the evals names them."""
    concerned: dict[str, list[str]] = {}
    for eval in evals:
        for phrase in missing.get(eval.id, ()):
            concerned.setdefault(phrase, []).append(eval.path)
    for phrase, paths in concerned.items():
        yield phrase if len(paths) == len(evals) else f"{phrase} ({join_first(paths, MOST_NAMED)})"


def spent(prepared: PreparedRun, reported: Usage) -> Spent:
    """Return the models' own count, which includes calls that broke off; without models, what the verdicts report."""
    if prepared.analyst.asks_models:
        return prepared.workspace.models.spent()
    return {"judge": reported} if reported != Usage() else {}
