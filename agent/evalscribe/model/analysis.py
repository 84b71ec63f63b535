"""Define the JSON document of one analysis."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from pydantic import Field

from evalscribe.ids import Frozen, content_id
from evalscribe.model.cascade import CascadeSaving, Stage
from evalscribe.model.evidence import CitationStatus, FailedScore, Role
from evalscribe.model.finding import (
    CauseKind,
    Classification,
    CrossModelFailures,
    FollowUpOutcome,
    PatternKind,
    RecommendationGroup,
    Recurrence,
    RecurrenceKind,
    ReplayOutcome,
    TrialCount,
    TrialRates,
    VerdictBasis,
)
from evalscribe.model.report import (
    EvalRef,
    JudgeAgreement,
    JudgeLabel,
    ProofSummary,
    Report,
    ReportEntry,
    ReportNote,
    RunHeader,
    Snippet,
)
from evalscribe.model.run import Run

REPORT_KIND = "evalscribe-report/2"
"""Kind of report that this version of evalscribe writes: a page in markdown, with this JSON document in a separate
file."""


class AnalyzedRun(Frozen):
    id: str | None = None
    provider: str | None = None
    model: str | None = None
    experiment: str | None = None
    status: str | None = None
    status_reason: str | None = None
    """Why the run did not complete: an explanation and the runner's own message."""
    passed: int | None = None
    failed: int | None = None
    incomplete: int | None = None
    total: int | None = None
    listed: int | None = None
    """Number of failures that the source listed."""
    names_all: bool | None = None
    """Whether the source names every eval of the run. If not, the source names only the failures."""
    url: str | None = None
    started_at: str | None = None
    """Time at which the run started, in ISO 8601."""
    duration_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    unread: tuple[str, ...] | None = None
    """Descriptions of the evals in the run's file that could not be read, with counts."""
    trials: TrialRates | None = None
    """Pass rates of the tasks that have several trials. This field is null if no task has several trials, or if the
    source names only failures."""


class JudgeOpinion(Frozen):
    id: str
    classification: Classification
    confidence: float
    stage: Stage | None = None
    """The cascade's stage that gave the verdict; null if the judge is not a cascade."""
    cost_usd: float | None = Field(default=None, exclude_if=lambda cost: cost is None)
    """Cost in USD of the verdict for the whole group. The field is left out if the rules engine gave the verdict, or if
    the cost is unknown."""


class RecurrenceSummary(Frozen):
    kind: RecurrenceKind
    reports: tuple[str, ...] = ()
    action: str | None = None


class CrossModelSummary(Frozen):
    """Results of other models on the same eval. Only models with the same experiment, task and grader are counted."""

    failing: int
    """Number of models that fail in the same way, including the model of this run."""
    models: int
    """Number of models whose results can be compared, including the model of this run."""
    alike: tuple[str, ...] = ()
    """Names of other models that fail in the same way. If there are many such models, only some are listed."""
    earlier: tuple[str, ...] = ()
    """Models that failed in the same way on another version of the eval. `failing` and `models` do not count these
    models."""
    more_earlier: int = 0
    """Number of further models that failed in the same way on another version of the eval but are not listed in
    `earlier`."""


class ReviewerOpinion(Frozen):
    label: Classification | None = None
    """The label that the reviewer gave or confirmed."""
    note: str | None = None


class CitationSummary(Frozen):
    role: Role
    path: str
    first: int
    last: int
    text: str
    status: CitationStatus


class FindingSummary(Frozen):
    """One failed eval with its verdict. All evals in the same entry of the report have the same `group`."""

    n: int | None = None
    """Number of the report entry that contains the eval. All evals and trials in the entry have the same number."""
    eval: str
    eval_id: str | None = None
    category: str | None = None
    step: str | None = None
    url: str | None = None
    group: str | None = None
    classification: Classification | None = None
    """The current label. It is null if the failure is unclassified, or if the report gives no label."""
    cause: str | None = None
    cause_kind: CauseKind | None = None
    confidence: float | None = None
    uncertain: bool | None = None
    basis: VerdictBasis = "judged"
    replay: ReplayOutcome | None = None
    """Result of replaying the failure; null if the failure was not replayed."""
    contradicted: JudgeOpinion | None = None
    """The judge's verdict, if a proof from replays replaced it; otherwise null."""
    judge: JudgeOpinion | None = None
    """The label that the judge gave; null in reports written by people."""
    error: str | None = None
    why: str | None = None
    """The reason for the verdict, in one line."""
    reasoning: str | None = None
    recurrence: RecurrenceSummary | None = None
    across: CrossModelSummary | None = None
    """Results of other models on the same eval; null if no other model is known to fail in the same way."""
    missing: str | None = None
    """Evidence that the source no longer has, such as `the model's output is no longer stored`."""
    reviewer: ReviewerOpinion | None = None
    output_snippet: str | None = None
    expected_snippet: str | None = None
    citations: tuple[CitationSummary, ...] = ()
    unclassified: str | None = None
    notes: tuple[str, ...] = ()
    """Paragraphs that people added below the finding."""
    trials: TrialCount | None = None
    """Outcomes of the trials of the eval's task; null if the task has a single trial."""
    scored: FailedScore | None = None
    """The score and the threshold of the failed step; null if the score or the threshold is unknown."""
    never_passed: bool = False
    """Whether all known trials of this task failed, no matter which model ran them. It is true only if several trials
    are known. Findings with the value true come first."""
    message: int | None = None
    """1-based number of the message in which the agent run went wrong. It is null if the message is unknown, or if the
    eval is not an agent run."""
    first_mistake: int | None = None
    """Number of the message that contains the agent run's first mistake. It is null if this message is unknown or does
    not come before `message`."""

    @property
    def overruled(self) -> bool:
        """Whether a person replaced the judge's label. If so, the cause that the judge named no longer applies."""
        return self.judge is not None and self.judge.classification != self.classification

    @property
    def by_person(self) -> bool:
        """Whether a person gave the label. This is true if the finding names no judge or was reviewed."""
        return self.classification is not None and (self.judge is None or self.reviewer is not None)


class PatternSummary(Frozen):
    name: str
    kind: PatternKind | None = None
    evals: tuple[str, ...] = ()
    text: str


class RecommendationSummary(Frozen):
    id: str | None = None
    group: RecommendationGroup
    text: str
    evals: tuple[str, ...] = ()
    would_pass: bool = False


class NetImpactSummary(Frozen):
    passed: int
    total: int
    scorable_passed: int
    scorable_total: int
    hopeful_passed: int


class ActionTaken(Frozen):
    """An action that people took because of a report."""

    text: str
    evals: tuple[str, ...] = ()
    """Paths or bare names of the evals that the action concerns; empty if the report does not name them."""


class FollowUpSummary(Frozen):
    """An action that people took because of an earlier report, and whether the fix worked in this run."""

    report: str
    text: str
    evals: tuple[str, ...] = ()
    outcome: FollowUpOutcome


class UsageSummary(Frozen):
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


class StageUsage(UsageSummary):
    """Model usage of one stage, including retries and interrupted calls."""

    stage: str


class CostSummary(UsageSummary):
    """Model usage and cost of one command."""

    stages: tuple[StageUsage, ...] = ()
    """Usage of each stage, in the order in which the stages first called a model."""


class Analysis(Frozen):
    kind: str | None = None
    """`evalscribe-report/2` if this is the data file of a report; null for other reports."""
    run: AnalyzedRun
    report_path: str | None = None
    revision: int | None = None
    date: str | None = None
    """ISO date of the first analysis."""
    judges: tuple[str, ...] = ()
    own_prompts: bool = False
    """Whether prompt templates from the workspace were used instead of the built-in ones."""
    page_url: str | None = None
    """Web address of the run's page; null if no address is configured."""
    evidence: str | None = None
    """Short content id of the run's whole evidence."""
    earlier: tuple[str, ...] = ()
    """File names of the earlier reports with which the run was compared, newest first."""
    incomplete_evals: tuple[str, ...] = ()
    """Paths of the evals that never completed, if the source names such evals."""
    changed: bool | None = None
    """Whether the command that wrote this document changed the report's file."""
    findings: tuple[FindingSummary, ...] = ()
    patterns: tuple[PatternSummary, ...] = ()
    resolved: tuple[str, ...] = ()
    recommendations: tuple[RecommendationSummary, ...] = ()
    net_impact: NetImpactSummary | None = None
    actions_taken: tuple[ActionTaken, ...] = ()
    actions_text: str | None = None
    """Text that people wrote in the report's section `Actions taken`."""
    notes: tuple[ReportNote, ...] = ()
    """Text that people added to the report outside its findings."""
    follow_ups: tuple[FollowUpSummary, ...] = ()
    proofs: tuple[ProofSummary, ...] = ()
    """Results of replaying the failures, with the replays' commands and logs."""
    cascade: CascadeSaving | None = None
    """Cost and savings of the cascade of judges; null if the judge is not a cascade."""
    agreement: tuple[JudgeAgreement, ...] = ()
    """How often each judge agreed with people's corrections in this workspace; missing if there are no corrections."""
    usage: CostSummary | None = None


def analysis_from_report(report: Report, findings: Iterable[FindingSummary] | None = None) -> Analysis:
    """Convert a report to the JSON document.

    A report has no eval ids, no usage and no `changed`, so these fields stay empty.

    Args:
        report: The report to convert.
        findings: Findings to use instead of the report's own findings, which have no ids and lack some citations. None
            to use the report's own findings.
    """
    return Analysis(
        kind=REPORT_KIND,
        run=analyzed_run(report.run),
        revision=report.revision,
        date=report.date,
        judges=report.judges,
        own_prompts=report.own_prompts,
        page_url=report.page_url,
        evidence=report.evidence or None,
        earlier=report.earlier,
        incomplete_evals=report.incomplete_evals,
        actions_text=report.actions_taken or None,
        notes=report.notes,
        findings=tuple(finding_summaries(report) if findings is None else findings),
        patterns=tuple(PatternSummary(**pattern.model_dump()) for pattern in report.patterns),
        resolved=report.resolved,
        follow_ups=tuple(FollowUpSummary(**follow_up.model_dump()) for follow_up in report.follow_ups),
        recommendations=tuple(
            RecommendationSummary(**recommendation.model_dump()) for recommendation in report.recommendations
        ),
        net_impact=NetImpactSummary(**report.net_impact.model_dump()),
        cascade=report.cascade,
        agreement=report.agreement,
        proofs=report.proofs,
    )


def finding_summaries(report: Report) -> Iterator[FindingSummary]:
    """Yield the finding of a report for each failed eval."""
    outcomes = {proof.eval: proof.outcome for proof in report.proofs}
    for n, entry in enumerate(report.entries, 1):
        group = content_id(sorted(entry.paths))
        for part in entry.each:
            # One proof is stored for all evals of a group, because the replays of all its evals have the same outcome.
            shared = next((outcomes[path] for path in part.paths if path in outcomes), None)
            yield from (_finding(n, part, ref, group, outcomes.get(ref.path, shared)) for ref in part.evals)


def analyzed_run(run: RunHeader | Run) -> AnalyzedRun:
    """Convert a run to the form that the JSON document uses.

    `run` is the run itself, or the header of the run's report. Fields that `run` lacks become null.
    """
    return AnalyzedRun(**{name: getattr(run, name, None) for name in AnalyzedRun.model_fields})


def _finding(n: int, entry: ReportEntry, ref: EvalRef, group: str, replay: ReplayOutcome | None) -> FindingSummary:
    return FindingSummary(
        n=n,
        eval=ref.path,
        category=ref.path.rpartition("/")[0] or None,
        step=entry.step,
        url=ref.url,
        group=group,
        classification=entry.classification,
        cause=entry.cause,
        cause_kind=entry.cause_kind,
        confidence=entry.judge.confidence if entry.judge else None,
        uncertain=entry.uncertain,
        judge=_opinion(entry.judge) if entry.judge else None,
        basis=entry.basis,
        replay=replay,
        contradicted=_opinion(entry.contradicted) if entry.contradicted else None,
        error=entry.error or None,
        why=entry.why or None,
        reasoning=entry.reasoning if entry.classification else None,
        recurrence=_recurrence(entry.recurrence),
        across=_across(entry.across),
        missing=entry.missing or None,
        reviewer=_reviewer(entry),
        output_snippet=_joined(entry.snippets, "output"),
        expected_snippet=_joined(entry.snippets, "expected"),
        citations=tuple(_citation(snippet) for snippet in entry.snippets),
        unclassified=None if entry.classification else entry.reasoning,
        notes=entry.notes,
        trials=entry.trials,
        scored=entry.scored,
        never_passed=entry.never_passed,
        message=entry.message,
        first_mistake=entry.first_mistake,
    )


@lru_cache(1024)  # few labels are different; a copy for each of 10,000 findings would take 6 MB
def _opinion(label: JudgeLabel) -> JudgeOpinion:
    return JudgeOpinion(**dict(label))


@lru_cache(1024)
def _recurrence(recurrence: Recurrence) -> RecurrenceSummary:
    return RecurrenceSummary(kind=recurrence.kind, reports=recurrence.reports, action=recurrence.action)


def _across(across: CrossModelFailures | None) -> CrossModelSummary | None:
    if across is None:
        return None
    return CrossModelSummary(
        failing=across.failing,
        models=across.models,
        alike=across.alike,
        earlier=across.earlier,
        more_earlier=across.more_earlier,
    )


def _reviewer(entry: ReportEntry) -> ReviewerOpinion | None:
    if not entry.reviewed:
        return None
    return ReviewerOpinion(label=entry.classification, note="\n".join(entry.reviewer) if entry.reviewer else None)


def _joined(snippets: Iterable[Snippet], role: Role) -> str | None:
    return "\n".join(snippet.text for snippet in snippets if snippet.role == role) or None


def _citation(snippet: Snippet) -> CitationSummary:
    last = snippet.first + snippet.text.count("\n")
    return CitationSummary(**snippet.model_dump(), last=last)
