"""Prepare the failures of a run, add the human labels that apply to them, and queue them for the judge."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from posixpath import relpath
from typing import TYPE_CHECKING

from evalscribe.collections.runs import open_run
from evalscribe.evidence.same_failure import OtherRuns, compact_failure
from evalscribe.failures.human_labels import (
    CurrentFailure,
    FailureRecords,
    add_labels,
    count_similar,
    examples_from_labels,
)
from evalscribe.failures.prepare import fetch_evidence, group_failures
from evalscribe.failures.trials import count_trials, find_outliers
from evalscribe.ids import model_folder
from evalscribe.judging.builder import FailureJudge, JudgeBuilder, open_engine_judge
from evalscribe.judging.pack import case_of
from evalscribe.judging.rules.agents import NOBODY_PASSED
from evalscribe.judging.rules.engine import RulesJudge, decided_by_people
from evalscribe.judging.rules.transcripts import Transcripts
from evalscribe.judging.verdicts import TIMEOUT_S, AnalysisWatcher, JudgedGroup, JudgeQueue
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import (
    Evidence,
    FailedScore,
    FailureFingerprint,
    GatheredEvidence,
    PreparedFailure,
    UnreadableEvidence,
)
from evalscribe.model.finding import (
    REPLAY_JUDGE,
    CrossModelFailures,
    Failure,
    FailureGroup,
    Finding,
    HumanLabel,
    Proof,
    TrialCount,
    Verdict,
    by_rules,
    proves,
)
from evalscribe.model.protocols import RunSource
from evalscribe.model.run import Eval, Run
from evalscribe.reports.history import ReportHistory, load_history, other_runs, stored_records
from evalscribe.reports.placement import folder_of
from evalscribe.text import join_first, pluralise
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore


@dataclass(frozen=True)
class RunLabels:
    """Human labels of other runs, with the labelled failures that are in the store."""

    labels: tuple[HumanLabel, ...]
    records: FailureRecords
    names: Mapping[str, str]
    """Display name of each report, by its path in the reports folder."""
    runs: Mapping[str, str]
    """Run id of each earlier report on the model, by the report's display name."""
    _current_failures: dict[str, CurrentFailure] = field(default_factory=dict)

    def with_labels(self, case: Failure, fingerprint: FailureFingerprint) -> Failure:
        """Return the case with precedents and examples from human labels."""
        if not (self.labels or case.precedents):
            return case
        now = self._current_failures.get(fingerprint.eval_id)
        if now is None:
            # The cause is only used to select examples, and there are no examples without labels.
            now = self._current_failures[fingerprint.eval_id] = _current_failure(
                case, fingerprint, cause=_cause(case) if self.labels else None
            )
        return case.model_copy(
            update={
                "precedents": add_labels(case.precedents, self.labels, now, self.records, self.names, self.runs),
                "examples": examples_from_labels(self.labels, now, self.records),
                "similar": count_similar(self.labels, now, self.records),
            }
        )


def labels_for(store: "AnalysisStore", run: Run, past: ReportHistory) -> RunLabels:
    """Load the human labels of all other runs from the store."""
    labels = tuple(label for label in store.labels() if label.run != run.id)
    folder = "/" + (past.folder or "/".join(model_folder(run.provider, run.model)))
    names = {label.report: relpath(f"/{label.report}", folder) for label in labels}
    runs = {report.name: report.run for report in past.reports}
    return RunLabels(labels, _stored_failures(store, {*runs.values(), *(label.run for label in labels)}), names, runs)


def _stored_failures(store: "AnalysisStore", run_ids: Iterable[str]) -> dict[tuple[str, str], FailureFingerprint]:
    records: dict[tuple[str, str], FailureFingerprint] = {}
    for run_id in sorted({*run_ids}.intersection(store.run_ids())):
        if run := store.get_run(run_id):
            records |= {
                (run_id, eval.path): record
                for eval, record in zip(run.failures, stored_records(store, run), strict=True)
            }
    return records


def _current_failure(case: Failure, fingerprint: FailureFingerprint, *, cause: str | None) -> CurrentFailure:
    located = case.diagnosis.located if case.diagnosis else None
    return CurrentFailure(
        fingerprint=fingerprint,
        path=case.evidence.eval.path,
        error=located.error if located else None,
        code=located.code if located else None,
        cause=cause,
    )


def _cause(case: Failure) -> str | None:
    """Return the cause that the rules name; None if their verdict is uncertain."""
    verdict = RulesJudge().decide(case)
    return None if verdict.uncertain else verdict.cause


BATCH_WORKERS = 500
"""Maximum number of failures in one batch of model calls."""
MOST_NAMED = 8
"""Maximum number of evals that a `Missing:` phrase names.

Evals are named if only part of a group lacks the evidence.
"""
Spent = Mapping[str, Usage]
"""Model usage by stage, in the order in which the stages made their first calls."""


@dataclass(frozen=True)
class PreparedRun:
    """The grouped failures of a run. Their evidence is in the store."""

    workspace: Workspace
    analyst: FailureJudge
    run: Run
    history: ReportHistory
    groups: tuple[FailureGroup, ...]
    digests: tuple[str, ...]
    """Content ids of the evidence, in the order of the run's failures."""
    fingerprints: tuple[FailureFingerprint, ...]
    """Fingerprints in the order of the run's failures."""
    other_runs: OtherRuns
    labels: RunLabels
    missing: Mapping[str, tuple[str, ...]]
    """Evidence that the source no longer has, by eval id."""
    passable: frozenset[str]
    """Ids of the failed evals whose task a recorded reference answer passes."""
    agent_runs: frozenset[str]
    """Ids of the failed evals in which the model called tools or exchanged several messages with a user."""
    computed: dict[str, bytes]
    """The compressed `PreparedFailure` of each group's first member, by eval id."""
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    """Results of replays of the same evidence, by eval id."""
    scored: Mapping[str, FailedScore] = field(default_factory=dict)
    """Score and threshold of each failed step for which both are known, by eval id."""
    not_replayed: Mapping[str, str] = field(default_factory=dict)
    """Reason why a requested replay of a failure could not run, by eval id."""
    full_run: Run | None = None
    """The run with all its failures, if `run` has only some of them."""

    def proved(self, group: FailureGroup) -> Verdict | None:
        """Return the verdict that replays proved for a group; None unless the replays of all its members agree."""
        proofs = [self.proofs.get(eval_id) for eval_id in group.eval_ids]
        verdicts = [proof.verdict for proof in proofs if proof and proof.verdict]
        same = len(verdicts) == len(proofs) and len({proof.outcome for proof in proofs if proof}) == 1
        return verdicts[0] if same else None

    def case_or_verdict(self, group: FailureGroup) -> Failure | UnreadableEvidence | Verdict:
        """Return the verdict that replays proved or that people's corrections decide.

        Without one, return the case to judge.
        """
        if proved := self.proved(group):
            return proved
        case = self.case(group)
        return (decided_by_people(case) if isinstance(case, Failure) else None) or case

    def case(self, group: FailureGroup) -> Failure | UnreadableEvidence:
        """Return the case of the group's first member, read from the store."""
        eval = self._evals[group.eval_ids[0]]
        evidence = self.workspace.store.analyses.get_evidence(self.run.id, eval.id)
        if evidence is None:
            return UnreadableEvidence(eval=eval, reason="its evidence is no longer in the store")
        if isinstance(evidence, UnreadableEvidence):
            return evidence
        data = self.computed.get(eval.id)
        case = case_of(evidence, PreparedFailure.decompress(data) if data else None)
        past = {
            "precedents": self.history.precedents.get(eval.path, ()),
            "across": self.across(group.eval_ids),
            "passable": all(map(self._passable, group.eval_ids)),
            "scored": self.scored.get(eval.id),
        }
        return self.labels.with_labels(case.model_copy(update=past), self._fingerprints[eval.id])

    def across(self, eval_ids: Iterable[str]) -> CrossModelFailures | None:
        """Return how other models fare on failures that share a verdict; None if this differs between the failures."""
        first, *rest = (self._across(eval_id) for eval_id in eval_ids)
        return first if all(other == first for other in rest) else None

    def _passable(self, eval_id: str) -> bool:
        proof, trials = self.proofs.get(eval_id), self._trials.get(self._evals[eval_id].task)
        replayed = proof is not None and proof.outcome == "reproduced"
        known_to_pass = eval_id in self.passable or bool(trials and trials.passed)
        return replayed or known_to_pass or self.other_runs.passed(self._fingerprints[eval_id].eval)

    @cached_property
    def _trials(self) -> Mapping[str, TrialCount]:
        return count_trials(self.full_run or self.run)

    def never_passed(self, eval_id: str) -> bool:
        """Return whether an agent failed all of several known trials, and nothing shows that the task can be passed."""
        if eval_id not in self.agent_runs or self._passable(eval_id):
            return False
        trials = self._trials.get(self._evals[eval_id].task)
        return bool(trials and trials.never_passed) or bool(
            self.other_runs.failures.get(self._fingerprints[eval_id].eval)
        )

    def unconfirmed(self, finding: Finding) -> bool:
        """Return whether a judging model blames an agent although nothing confirms what the task expects.

        The expectation is confirmed by a trial that passed, by a reference that passes, or by a verified quotation of
        the agent's own instructions.
        """
        verdict, ids = finding.judged, [eval.id for eval in finding.evals]
        if verdict is None or verdict.uncertain or verdict.classification != "MODEL_FAULT":
            return False
        if by_rules(verdict.judge) or proves(verdict.judge) or not self.agent_runs.issuperset(ids):
            return False
        if all(map(self._passable, ids)):
            return False
        evidence = self.workspace.store.analyses.get_evidence(self.run.id, ids[0])
        return not isinstance(evidence, Evidence) or not _quotes_instructions(verdict, evidence)

    def _across(self, eval_id: str) -> CrossModelFailures | None:
        return self.other_runs.across(compact_failure(self._fingerprints[eval_id]))

    @cached_property
    def _fingerprints(self) -> dict[str, FailureFingerprint]:
        return {fingerprint.eval_id: fingerprint for fingerprint in self.fingerprints}

    @cached_property
    def _evals(self) -> dict[str, Eval]:
        return {eval.id: eval for eval in self.run.failures}

    def knows(self, case: Failure) -> bool:
        """True if the store has this judge's verdict on the case."""
        return self.cached_verdict(case) is not None

    def cached_verdict(self, case: Failure) -> Verdict | None:
        """Return this judge's verdict on the case if the store has it."""
        cached = self.workspace.store.analyses.get_verdict(self.analyst.judge.key(case))
        return cached if isinstance(cached, Verdict) and not cached.provisional else None


def _with_steps(run: Run, gathered: Iterable[GatheredEvidence]) -> Run:
    """Add each failed step that the run does not name but the evidence does."""
    steps = {summary.eval_id: summary.failed_step for summary in gathered}
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
async def open_run_source(
    workspace: Workspace,
    run: str,
    watcher: AnalysisWatcher,
    *,
    rubric: str | None = None,
    cascade: bool = False,
    provider: str | None = None,
    model: str | None = None,
    replays: bool = False,
) -> AsyncIterator[tuple[FailureJudge, RunSource]]:
    """Open the judge and the run's source. A missing key is reported before the run is read or a store is created."""
    async with open_engine_judge(workspace) as workers:
        builder = JudgeBuilder(workspace, workers)
        models = builder.models(cascade=cascade)
        async with open_run(workspace, run, watcher, provider=provider, model=model, replays=replays) as source:
            yield builder.analyst(models, rubric, fresh=workspace.options.fresh), source


def rules_may_judge(workspace: Workspace, *, rubric: str | None, cascade: bool) -> bool:
    """Return whether the rules can replace the judge: only if the user chose no rubric, cascade, batch or model."""
    return not (rubric or cascade or workspace.options.batch or workspace.settings.user_names_judge)


async def prepare(
    workspace: Workspace,
    analyst: FailureJudge,
    source: RunSource,
    run: Run,
    past: ReportHistory,
    watcher: AnalysisWatcher,
    *,
    full_run: Run | None = None,
) -> PreparedRun:
    """Store the evidence of every failure, and compare the failures with those of other runs.

    `full_run` is the run with all its failures if `run` has only some of them.
    """
    gathered = await fetch_evidence(source, run, workspace.store.analyses, watcher.fetched)
    run = _with_steps(run, gathered)
    fingerprints = tuple(summary.fingerprint for summary in gathered if summary.fingerprint)
    grouped = group_failures(gathered)
    first = {group.eval_ids[0] for group in grouped}
    proofs, outdated = usable_proofs(workspace, run, [summary.digest for summary in gathered])
    if outdated:
        watcher.say(
            f"{pluralise(outdated, 'failure')} proved by replay had other evidence then, such as other `tasks`; "
            "these proofs are not used.",
            ("tasks",),
        )
    return PreparedRun(
        workspace=workspace,
        analyst=analyst,
        run=run,
        history=past,
        groups=grouped,
        digests=tuple(summary.digest for summary in gathered),
        fingerprints=fingerprints,
        other_runs=await asyncio.to_thread(other_runs, workspace.store.analyses, run, fingerprints),
        labels=await asyncio.to_thread(labels_for, workspace.store.analyses, run, past),
        missing={summary.eval_id: summary.missing for summary in gathered if summary.missing},
        passable=frozenset(summary.eval_id for summary in gathered if summary.reference_passes),
        agent_runs=frozenset(summary.eval_id for summary in gathered if summary.agent_run),
        full_run=full_run,
        scored={summary.eval_id: summary.scored for summary in gathered if summary.scored},
        computed={
            summary.eval_id: summary.prepared for summary in gathered if summary.prepared and summary.eval_id in first
        },
        proofs=proofs,
    )


def usable_proofs(workspace: Workspace, run: Run, digests: Iterable[str]) -> tuple[dict[str, Proof], int]:
    """Return the usable proofs by eval id, and the number of proofs that are not usable.

    A proof is usable if the failure still has the same evidence. `digests` are the content ids of the evidence, in the
    order of the failures. Inconclusive replays are not counted.
    """
    now = {eval.id: digest for eval, digest in zip(run.failures, digests, strict=True)}
    stored = [proof for proof in workspace.store.analyses.proofs(run.id) if proof.eval_id in now]
    usable = {proof.eval_id: proof for proof in stored if now[proof.eval_id] == proof.evidence}
    return usable, sum(proof.eval_id not in usable and proof.basis != "judged" for proof in stored)


def judge_queue(prepared: PreparedRun, on_event: Callable[[JudgedGroup], None]) -> JudgeQueue:
    """Queue the groups for the judge. Failures with a cached verdict are judged again only with `--fresh`."""
    workspace = prepared.workspace
    batch = workspace.options.batch

    def judged(event: JudgedGroup) -> None:
        certain = isinstance(event.verdict, Verdict) and not event.verdict.uncertain
        if certain and not prepared.analyst.cascade:  # other cases are used again, for advice or savings
            prepared.computed.pop(event.group.eval_ids[0], None)
        on_event(event)

    return JudgeQueue(
        run=prepared.run,
        groups=prepared.groups,
        case_of=prepared.case_or_verdict,
        judge=prepared.analyst.judge,
        store=workspace.store.analyses,
        concurrency=BATCH_WORKERS if batch else workspace.settings.concurrency.value,
        timeout_s=None if batch else TIMEOUT_S,
        fresh=workspace.options.fresh,
        on_event=judged,
        outliers=find_outliers,
    )


def with_context(prepared: PreparedRun, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Add facts to each finding: other models' results, missing evidence, replays and the reference answer."""
    return tuple(_with_context(prepared, part) for finding in findings for part in _by_proof(prepared, finding))


def _by_proof(prepared: PreparedRun, finding: Finding) -> Iterator[Finding]:
    """Split a finding if replays of its evals had different outcomes. A proved verdict replaces the judge's verdict."""
    proofs = prepared.proofs
    for _, same in groupby(finding.evals, key=lambda eval: proofs[eval.id].outcome if eval.id in proofs else None):
        evals = tuple(same)
        proof = proofs.get(evals[0].id)
        change: dict[str, object] = {"evals": evals} if evals != finding.evals else {}
        if proof:
            change["proof"] = proof
        if proof and proof.verdict:
            judged = finding.judged if finding.judged and finding.judged.judge != REPLAY_JUDGE else None
            judged = judged or _judged_before(prepared, evals)
            differs = judged and judged.classification != proof.verdict.classification
            change |= {"verdict": proof.verdict, "contradicted": judged if differs else None}
        yield finding.model_copy(update=change) if change else finding


def _judged_before(prepared: PreparedRun, evals: Sequence[Eval]) -> Verdict | None:
    """Return the verdict that the judge gave before the failures' verdict was proved, if the store has it."""
    group = next((group for group in prepared.groups if evals[0].id in group.eval_ids), None)
    case = prepared.case(group) if group else None
    return prepared.cached_verdict(case) if isinstance(case, Failure) else None


def _with_context(prepared: PreparedRun, finding: Finding) -> Finding:
    across = prepared.across(eval.id for eval in finding.evals)
    missing = tuple(_missing(finding.evals, prepared.missing))
    passes = any(eval.id in prepared.passable for eval in finding.evals)
    never = all(prepared.never_passed(eval.id) for eval in finding.evals)
    change: dict[str, object] = {
        "across": across,
        "missing": missing,
        "reference_passes": passes,
        "never_passed": never,
        "scored": prepared.scored.get(finding.evals[0].id) if len(finding.evals) == 1 else None,
    }
    if finding.judged and prepared.unconfirmed(finding):
        change["verdict"] = finding.judged.doubted(NOBODY_PASSED)
    return finding.model_copy(update=change) if any(change.values()) else finding


def _quotes_instructions(verdict: Verdict, evidence: Evidence) -> bool:
    """Return whether a verified quotation is from the agent's instructions, which are its system messages."""
    places = [
        (turn.document.path, turn.turn.first, turn.turn.last)
        for turn in Transcripts(evidence).turns
        if turn.turn.role == "system"
    ]
    return any(
        citation.role == "transcript"
        and citation.status != "unverified"
        and citation.path == path
        and first <= citation.first <= last
        for citation in verdict.citations
        for path, first, last in places
    )


def _missing(evals: tuple[Eval, ...], missing: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield phrases about evidence that the source no longer has. If only some evals lack it, the phrase names them."""
    concerned: dict[str, list[str]] = {}
    for eval in evals:
        for phrase in missing.get(eval.id, ()):
            concerned.setdefault(phrase, []).append(eval.path)
    for phrase, paths in concerned.items():
        yield phrase if len(paths) == len(evals) else f"{phrase} ({join_first(paths, MOST_NAMED)})"


def usage_by_stage(prepared: PreparedRun, reported: Usage) -> Spent:
    """Return the usage by stage, as counted by the models.

    If the judge is no model, `reported` is the usage of the judge.
    """
    if prepared.analyst.models:
        return prepared.workspace.models.spent()
    return {"judge": reported} if reported != Usage() else {}
