"""From a run to its failures, ready to be judged, and to their findings. Shared by `analyze` and `explain`."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from evalscribe.across import Elsewhere, glimpse
from evalscribe.app.analysis.desk import Desk
from evalscribe.app.analysis.labels import Labels, labels_for
from evalscribe.app.analysis.sightings import elsewhere
from evalscribe.app.watcher import Watcher
from evalscribe.chat import Usage
from evalscribe.evidence import Gathered, Unreadable
from evalscribe.finding import Across, Case, Finding, Group, Unclassified, Verdict
from evalscribe.gather import gather, pack
from evalscribe.graph.deps import Deps, Judged
from evalscribe.prose import some_of
from evalscribe.publish import folder_of
from evalscribe.recall import History, history
from evalscribe.run import Eval, Run
from evalscribe.sighting import Sighting
from evalscribe.triage import groups

MOST_NAMED = 8
"""Most evals named in a `Missing:` phrase that concerns only part of a group."""
Spent = Mapping[str, Usage]
"""Usage by stage, in the order of their first calls."""


@dataclass(frozen=True)
class JudgingResult:
    """The findings of a run, and how many of them the judge decided in this analysis."""

    findings: tuple[Finding, ...]
    spent: Spent
    decided: int
    """Groups that the judge was asked about in this analysis and decided."""
    undecided: tuple[Unclassified, ...]
    """One reason for each other group that it was asked about."""


@dataclass(frozen=True)
class Docket:
    """The failures of a run in groups; their evidence is in the store."""

    desk: Desk
    run: Run
    history: History
    groups: tuple[Group, ...]
    digests: tuple[str, ...]
    """Content ids of the evidence, in the order of the run's failures."""
    sightings: tuple[Sighting, ...]
    """In the order of the run's failures."""
    elsewhere: Elsewhere
    labels: Labels
    missing: Mapping[str, tuple[str, ...]]
    """Evidence that the source no longer has, by eval id."""

    def case(self, group: Group) -> Case | Unreadable:
        """The case of the member that stands for a group, read from the store."""
        eval = self._evals[group.eval_ids[0]]
        found = self.desk.store.get_evidence(self.run.id, eval.id)
        if found is None:
            return Unreadable(eval=eval, reason="its evidence is no longer in the store")
        if isinstance(found, Unreadable):
            return found
        case = Case(
            evidence=found,
            packed=pack(found),
            precedents=self.history.precedents.get(eval.path, ()),
            across=self.across(group.eval_ids),
        )
        return self.labels.recalled(case, self._sighted[eval.id])

    def across(self, eval_ids: Iterable[str]) -> Across | None:
        """What other models' runs say of failures with one verdict; None where it is not the same for all of them."""
        first, *others = (self._across(eval_id) for eval_id in eval_ids)
        return first if all(other == first for other in others) else None

    def _across(self, eval_id: str) -> Across | None:
        return self.elsewhere.across(glimpse(self._sighted[eval_id]))

    @cached_property
    def _sighted(self) -> dict[str, Sighting]:
        return {sighting.eval_id: sighting for sighting in self.sightings}

    @cached_property
    def _evals(self) -> dict[str, Eval]:
        return {eval.id: eval for eval in self.run.failures}

    def knows(self, case: Case) -> bool:
        """Whether the store has this judge's verdict on the case."""
        known = self.desk.store.get_verdict(self.desk.judge.key(case))
        return isinstance(known, Verdict) and not known.provisional


def _with_steps(run: Run, gathered: Iterable[Gathered]) -> Run:
    """Fill in failed steps that only the evidence names."""
    steps = {one.eval_id: one.failed_step for one in gathered}
    failures = tuple(
        eval if eval.failed_step else eval.model_copy(update={"failed_step": steps.get(eval.id)})
        for eval in run.failures
    )
    return run.model_copy(update={"failures": failures})


def _past(desk: Desk, run: Run) -> History:
    files = desk.library.of_model(run.provider, run.model, run.id)
    return history(files, run, folder_of(run, files))


async def docket(desk: Desk, run: Run, watcher: Watcher) -> Docket:
    """Read the evidence of every failure and the earlier reports of the model."""
    past = await asyncio.to_thread(_past, desk, run)
    gathered = await gather(desk.source, run, desk.store, watcher.fetched)
    run = _with_steps(run, gathered)
    seen = tuple(one.sighting for one in gathered if one.sighting)
    return Docket(
        desk=desk,
        run=run,
        history=past,
        groups=groups(gathered),
        digests=tuple(one.digest for one in gathered),
        sightings=seen,
        elsewhere=await asyncio.to_thread(elsewhere, desk.store, run, seen),
        labels=await asyncio.to_thread(labels_for, desk.store, run, past),
        missing={one.eval_id: one.missing for one in gathered},
    )


async def judge(docket: Docket, watcher: Watcher, *, fresh: bool = False) -> JudgingResult:
    """One finding for each group, and what it took; what the store knows is not asked again unless `fresh`."""
    from evalscribe.graph.run import judge_groups  # LangGraph takes seconds to import

    spent: list[Usage] = []

    def hear(event: Judged) -> None:
        spent.extend([] if event.cached else [event.verdict.usage])
        watcher.judged(event)

    desk = docket.desk
    outcome = await judge_groups(deps(docket, hear, fresh=fresh), desk.checkpoints)
    findings = tuple(
        finding.model_copy(
            update={
                "across": docket.across(eval.id for eval in finding.evals),
                "missing": tuple(_missing(finding.evals, docket.missing)),
            }
        )
        for finding in outcome.findings
    )
    return JudgingResult(findings, _spent(desk, sum(spent, Usage())), outcome.decided, outcome.undecided)


def _missing(evals: tuple[Eval, ...], missing: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Evidence that the source no longer has; a phrase that applies to only some of the evals names them."""
    concerned: dict[str, list[str]] = {}
    for eval in evals:
        for phrase in missing.get(eval.id, ()):
            concerned.setdefault(phrase, []).append(eval.path)
    for phrase, paths in concerned.items():
        yield phrase if len(paths) == len(evals) else f"{phrase} ({some_of(paths, MOST_NAMED)})"


def deps(docket: Docket, hear: Callable[[Judged], None], *, fresh: bool = False) -> Deps:
    """What the lanes work with."""
    return Deps(
        run=docket.run,
        groups=docket.groups,
        case_of=docket.case,
        judge=docket.desk.judge,
        store=docket.desk.store,
        concurrency=docket.desk.concurrency,
        timeout_s=docket.desk.timeout_s,
        fresh=fresh,
        on_event=hear,
    )


def _spent(desk: Desk, told: Usage) -> Spent:
    """What the models' own count says, which has what broke off too; without one what the verdicts tell."""
    if desk.spent is not None:
        return desk.spent()
    return {"judge": told} if told != Usage() else {}
