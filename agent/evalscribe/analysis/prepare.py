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
    by_model,
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
    """Human labels of other runs, and the labelled failures that are in the store."""

    labels: tuple[HumanLabel, ...]
    records: FailureRecords
    names: Mapping[str, str]
    """Display name of each report, keyed by the report's path in the reports folder."""
    runs: Mapping[str, str]
    """Run id of each earlier report on the model, keyed by the report's display name."""
    _current_failures: dict[str, CurrentFailure] = field(default_factory=dict)

    def with_labels(self, case: Failure, fingerprint: FailureFingerprint) -> Failure:
        """Add to a case the precedents and examples that follow from human labels."""
        if not (self.labels or case.precedents):
            return case
        # A case is built for the estimate, for judging and for the advice. The rules need to name its cause only once.
        now = self._current_failures.get(fingerprint.eval_id)
        if now is None:
            # The cause is only used to select examples. Without labels, there are no examples.
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
    """Return the cause that the rules name for a failure; None if the verdict of the rules is uncertain."""
    verdict = RulesJudge().decide(case)
    return None if verdict.uncertain else verdict.cause


BATCH_WORKERS = 500
"""Number of failures that are judged concurrently with the option `batch`, and thus the maximum in one batch of
model calls.
"""
MOST_NAMED = 8
"""Maximum number of evals that a `Missing:` phrase in a report names.

The phrase names evals only if some evals of the group lack the evidence and others have it.
"""
Spent = Mapping[str, Usage]
"""Model usage, keyed by stage, in the order in which the stages made their first calls."""


@dataclass(frozen=True)
class PreparedRun:
    """The failures of a run, in groups. The evidence of the failures is in the store."""

    workspace: Workspace
    analyst: FailureJudge
    run: Run
    history: ReportHistory
    groups: tuple[FailureGroup, ...]
    digests: tuple[str, ...]
    """Content id of the evidence of each failure, in the order of the run's failures."""
    fingerprints: tuple[FailureFingerprint, ...]
    """Fingerprint of each failure, in the order of the run's failures."""
    other_runs: OtherRuns
    labels: RunLabels
    missing: Mapping[str, tuple[str, ...]]
    """Descriptions of evidence that the source no longer has, keyed by eval id."""
    passable: frozenset[str]
    """Ids of the failed evals for which the run recorded a reference answer that passes."""
    agent_runs: frozenset[str]
    """Ids of the failed evals in which the model called tools or exchanged several messages with a user."""
    computed: dict[str, bytes]
    """The compressed `PreparedFailure` of the first member of each group, keyed by eval id."""
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    """Results of the replays that were made with the same evidence, keyed by eval id."""
    scored: Mapping[str, FailedScore] = field(default_factory=dict)
    """Score and threshold of the failed step, keyed by eval id.

    Evals for which one of the numbers is unknown are left out.
    """
    not_replayed: Mapping[str, str] = field(default_factory=dict)
    """Reasons why replays that were requested could not be run, keyed by eval id."""
    full_run: Run | None = None
    """The run with all its failures. None if `run` already has all of them."""

    def proved(self, group: FailureGroup) -> Verdict | None:
        """Return the verdict that replays proved for a group.

        Returns None unless every member has a proved verdict with the same outcome.
        """
        # Replays run for each eval, but a judge gives one verdict to the whole group. A judge is still needed if the
        # proofs of its members differ.
        proofs = [self.proofs.get(eval_id) for eval_id in group.eval_ids]
        verdicts = [proof.verdict for proof in proofs if proof and proof.verdict]
        same = len(verdicts) == len(proofs) and len({proof.outcome for proof in proofs if proof}) == 1
        return verdicts[0] if same else None

    def case_or_verdict(self, group: FailureGroup) -> Failure | UnreadableEvidence | Verdict:
        """Return a group's verdict if replays proved it or if it follows from people's corrections.

        If there is no such verdict, return the case to judge, or the `UnreadableEvidence`.
        """
        if proved := self.proved(group):
            return proved
        case = self.case(group)
        return (decided_by_people(case) if isinstance(case, Failure) else None) or case

    def case(self, group: FailureGroup) -> Failure | UnreadableEvidence:
        """Read the evidence of the group's first member from the store, and return the member's case."""
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
        """Return how other models perform on failures that share a verdict.

        Returns None if the answer is not the same for all these failures.
        """
        first, *rest = (self._across(eval_id) for eval_id in eval_ids)
        return first if all(other == first for other in rest) else None

    def _passable(self, eval_id: str) -> bool:
        proof, trials = self.proofs.get(eval_id), self._trials.get(self._evals[eval_id].task)
        # A failure only counts as reproduced if the reference answer passed in the replays.
        replayed = proof is not None and proof.outcome == "reproduced"
        known_to_pass = eval_id in self.passable or bool(trials and trials.passed)
        return replayed or known_to_pass or self.other_runs.passed(self._fingerprints[eval_id].eval)

    @cached_property
    def _trials(self) -> Mapping[str, TrialCount]:
        return count_trials(self.full_run or self.run)

    def never_passed(self, eval_id: str) -> bool:
        """Return whether a task has several known trials, the agent failed all of them, and nothing shows that the task
        can be passed.
        """
        if eval_id not in self.agent_runs or self._passable(eval_id):
            return False
        trials = self._trials.get(self._evals[eval_id].task)
        return bool(trials and trials.never_passed) or bool(
            self.other_runs.failures.get(self._fingerprints[eval_id].eval)
        )

    def unconfirmed(self, finding: Finding) -> bool:
        """Return whether a model judged that the agent is at fault, although nothing confirms that the task's
        expectation is right.

        The expectation is confirmed by a trial that passed, by a reference answer that passes, or by a verified
        quotation of the agent's own instructions.
        """
        verdict, ids = finding.judged, [eval.id for eval in finding.evals]
        if verdict is None or verdict.uncertain or verdict.classification != "MODEL_FAULT":
            return False
        if not by_model(verdict.judge) or not self.agent_runs.issuperset(ids):
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
        """Return True if the store has a usable verdict of this judge on the case."""
        return self.cached_verdict(case) is not None

    def cached_verdict(self, case: Failure) -> Verdict | None:
        """Return this judge's verdict on the case from the store; None if there is none or if it is provisional."""
        cached = self.workspace.store.analyses.get_verdict(self.analyst.judge.key(case))
        return cached if isinstance(cached, Verdict) and not cached.provisional else None


def _with_steps(run: Run, gathered: Iterable[GatheredEvidence]) -> Run:
    """Set the failed step of each failure for which the evidence names the step but the run does not."""
    steps = {summary.eval_id: summary.failed_step for summary in gathered}
    failures = tuple(
        # The Convex runner sends the rows of steps without waiting for an answer, so rows can be missing from the list.
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
    """Open the judge and the run's source."""
    async with open_engine_judge(workspace) as workers:
        builder = JudgeBuilder(workspace, workers)
        # Open the models first, so that a missing key is reported before the run is read or a store is created.
        models = builder.models(cascade=cascade)
        async with open_run(workspace, run, watcher, provider=provider, model=model, replays=replays) as source:
            yield builder.analyst(models, rubric, fresh=workspace.options.fresh), source


def rules_may_judge(workspace: Workspace, *, rubric: str | None, cascade: bool) -> bool:
    """Return whether the rules can replace the judge.

    The rules cannot replace the judge if the user chose a rubric, a cascade, a batch or a model.
    """
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

    If `run` has only some of the run's failures, `full_run` must be the run with all of them.
    """
    gathered = await fetch_evidence(source, run, workspace.store.analyses, watcher.fetched)
    run = _with_steps(run, gathered)
    fingerprints = tuple(summary.fingerprint for summary in gathered if summary.fingerprint)
    grouped = group_failures(gathered)
    first = {group.eval_ids[0] for group in grouped}
    proofs, outdated = usable_proofs(workspace, run, [summary.digest for summary in gathered])
    if outdated:
        watcher.say(
            f"The proofs of {pluralise(outdated, 'failure')} were made with other evidence, such as other `tasks`, "
            "and are not used.",
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
        # These two read all stored runs that might be comparable. In a thread, they do not delay Ctrl-C.
        other_runs=await asyncio.to_thread(other_runs, workspace.store.analyses, run, fingerprints),
        labels=await asyncio.to_thread(labels_for, workspace.store.analyses, run, past),
        missing={summary.eval_id: summary.missing for summary in gathered if summary.missing},
        passable=frozenset(summary.eval_id for summary in gathered if summary.reference_passes),
        agent_runs=frozenset(summary.eval_id for summary in gathered if summary.agent_run),
        full_run=full_run,
        scored={summary.eval_id: summary.scored for summary in gathered if summary.scored},
        # A judge reads only the first member of each group, so what was computed for the other members is dropped.
        computed={
            summary.eval_id: summary.prepared for summary in gathered if summary.prepared and summary.eval_id in first
        },
        proofs=proofs,
    )


def usable_proofs(workspace: Workspace, run: Run, digests: Iterable[str]) -> tuple[dict[str, Proof], int]:
    """Return the usable proofs, keyed by eval id, and the number of unusable proofs.

    A proof is usable if the evidence of the failure has not changed since the replay. Inconclusive replays are not
    counted as unusable proofs. `digests` are the current content ids of the evidence, in the order of the failures.
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
        if certain and not prepared.analyst.cascade:  # other cases are needed again, for advice or the saving
            prepared.computed.pop(event.group.eval_ids[0], None)
        on_event(event)

    return JudgeQueue(
        run=prepared.run,
        groups=prepared.groups,
        case_of=prepared.case_or_verdict,
        judge=prepared.analyst.judge,
        store=workspace.store.analyses,
        concurrency=BATCH_WORKERS if batch else workspace.settings.concurrency.value,
        # The answers of a message batch can take up to a day.
        timeout_s=None if batch else TIMEOUT_S,
        fresh=workspace.options.fresh,
        on_event=judged,
        outliers=find_outliers,
    )


def with_context(prepared: PreparedRun, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Add facts to each finding: results of other models, missing evidence, replays, and whether the reference answer
    passes.
    """
    return tuple(_with_context(prepared, part) for finding in findings for part in _by_proof(prepared, finding))


def _by_proof(prepared: PreparedRun, finding: Finding) -> Iterator[Finding]:
    """Split a finding if the replays of its evals had different outcomes.

    A verdict that was proved by replay replaces the verdict of the judge.
    """
    proofs = prepared.proofs
    for _, same in groupby(finding.evals, key=lambda eval: proofs[eval.id].outcome if eval.id in proofs else None):
        evals = tuple(same)
        proof = proofs.get(evals[0].id)
        change: dict[str, object] = {"evals": evals} if evals != finding.evals else {}
        if proof:
            change["proof"] = proof
        if proof and proof.verdict:
            # A group that was proved before judging only has the verdict of the replays. Its judge's verdict may be in
            # the store.
            judged = finding.judged if finding.judged and finding.judged.judge != REPLAY_JUDGE else None
            judged = judged or _judged_before(prepared, evals)
            differs = judged and judged.classification != proof.verdict.classification
            change |= {"verdict": proof.verdict, "contradicted": judged if differs else None}
        yield finding.model_copy(update=change) if change else finding


def _judged_before(prepared: PreparedRun, evals: Sequence[Eval]) -> Verdict | None:
    """Return the stored verdict that the judge reached before replays proved another verdict.

    Returns None if the store has no such verdict.
    """
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
        # The evals of a group share the verdict, but each has its own score.
        "scored": prepared.scored.get(finding.evals[0].id) if len(finding.evals) == 1 else None,
    }
    if finding.judged and prepared.unconfirmed(finding):
        change["verdict"] = finding.judged.doubted(NOBODY_PASSED)
    # Pydantic stores a set of field names in each copy. That adds up for thousands of findings, so a finding is only
    # copied if a fact is added.
    return finding.model_copy(update=change) if any(change.values()) else finding


def _quotes_instructions(verdict: Verdict, evidence: Evidence) -> bool:
    """Return whether the verdict has a verified quotation from the agent's instructions, that is, from its system
    messages.
    """
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
    """Yield a phrase for each kind of evidence that the source no longer has.

    If only some of the evals lack the evidence, the phrase names the evals that lack it.
    """
    concerned: dict[str, list[str]] = {}
    for eval in evals:
        for phrase in missing.get(eval.id, ()):
            concerned.setdefault(phrase, []).append(eval.path)
    for phrase, paths in concerned.items():
        yield phrase if len(paths) == len(evals) else f"{phrase} ({join_first(paths, MOST_NAMED)})"


def usage_by_stage(prepared: PreparedRun, reported: Usage) -> Spent:
    """Return the usage by stage, as counted by the models.

    If the judge is not a model, `reported` is returned as the judge's usage.
    """
    if prepared.analyst.models:
        return prepared.workspace.models.spent()
    return {"judge": reported} if reported != Usage() else {}
