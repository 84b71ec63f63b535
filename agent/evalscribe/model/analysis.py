"""The JSON document of one analysis."""

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
"""Kind of report that this version writes: a page, with this JSON document in a separate file."""


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
    """Whether the source names every eval of the run, not only the failures."""
    url: str | None = None
    started_at: str | None = None
    """ISO 8601."""
    duration_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    unread: tuple[str, ...] | None = None
    """Evals of the run's file that could not be read, as phrases with counts."""
    trials: TrialRates | None = None
    """Pass rates of tasks with several trials; null without such tasks, or if the source names only failures."""


class JudgeOpinion(Frozen):
    id: str
    classification: Classification
    confidence: float
    stage: Stage | None = None
    """The stage of a cascade that decided; null for a single judge."""
    cost_usd: float | None = Field(default=None, exclude_if=lambda cost: cost is None)
    """Cost of the verdict, which a whole group shares. Missing for the rules, and if it is unknown."""


class RecurrenceSummary(Frozen):
    kind: RecurrenceKind
    reports: tuple[str, ...] = ()
    action: str | None = None


class CrossModelSummary(Frozen):
    """Results of other models on the same eval: same experiment, task and grader."""

    failing: int
    """Number of models that fail in the same way, including the model of this run."""
    models: int
    """Number of models that can be compared."""
    alike: tuple[str, ...] = ()
    """Other models that fail in the same way. If there are many, only some are named."""
    earlier: tuple[str, ...] = ()
    """Models that failed in the same way on another version of the eval; not included in `failing` and `models`."""
    more_earlier: int = 0
    """Number of further models that belong in `earlier` but are not named."""


class ReviewerOpinion(Frozen):
    label: Classification | None = None
    """The label that the person gave or confirmed."""
    note: str | None = None


class CitationSummary(Frozen):
    role: Role
    path: str
    first: int
    last: int
    text: str
    status: CitationStatus


class FindingSummary(Frozen):
    """One failed eval with the verdict on it. Evals in the same entry of the report have the same `group`."""

    n: int | None = None
    """Number of the entry in the report. Evals and trials in one entry have the same number."""
    eval: str
    eval_id: str | None = None
    category: str | None = None
    step: str | None = None
    url: str | None = None
    group: str | None = None
    classification: Classification | None = None
    """The current label; null if unclassified, or if the report gives none."""
    cause: str | None = None
    cause_kind: CauseKind | None = None
    confidence: float | None = None
    uncertain: bool | None = None
    basis: VerdictBasis = "judged"
    replay: ReplayOutcome | None = None
    """Result of replaying the failure; null if nothing was replayed."""
    contradicted: JudgeOpinion | None = None
    """The judge's verdict, if a proof replaced it."""
    judge: JudgeOpinion | None = None
    """The judge's label; null in reports written by people."""
    error: str | None = None
    why: str | None = None
    """The reason in one line."""
    reasoning: str | None = None
    recurrence: RecurrenceSummary | None = None
    across: CrossModelSummary | None = None
    """Null if no other model is known to fail in the same way."""
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
    """Outcomes of the task's trials; null if the task has a single trial."""
    scored: FailedScore | None = None
    """The score of the failed step with the threshold; null if either is unknown."""
    never_passed: bool = False
    """Whether agents failed this task in every known trial of any model. True only if several trials are known. Such
    findings come first."""
    message: int | None = None
    """Number of the message, from 1, in which an agent run went wrong; null if unknown, or for other evals."""
    first_mistake: int | None = None
    """Number of an earlier message with the run's first mistake; null if that is `message`, or unknown."""

    @property
    def overruled(self) -> bool:
        """Whether a person replaced the judge's label. If so, the judge's cause does not apply."""
        return self.judge is not None and self.judge.classification != self.classification

    @property
    def by_person(self) -> bool:
        """Whether a person gave the label. This is so if no judge is named, or if the finding was reviewed."""
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
    """An action that people took after a report."""

    text: str
    evals: tuple[str, ...] = ()
    """Paths or bare names of the evals that the action concerns; empty if the report does not say."""


class FollowUpSummary(Frozen):
    """An action taken after an earlier report, and whether the fix held in this run."""

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
    """Usage of one stage, including retries and interrupted calls."""

    stage: str


class CostSummary(UsageSummary):
    """Usage of one command."""

    stages: tuple[StageUsage, ...] = ()
    """Stages in the order of their first calls."""


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
    """Whether the workspace's own prompt templates were used."""
    page_url: str | None = None
    """Address of the run's page in the browser; null if none is configured."""
    evidence: str | None = None
    """Short content id of all evidence."""
    earlier: tuple[str, ...] = ()
    """File names of the earlier reports that were compared, newest first."""
    incomplete_evals: tuple[str, ...] = ()
    """Evals that never completed, if the source names them."""
    changed: bool | None = None
    """Whether this command changed the report's file."""
    findings: tuple[FindingSummary, ...] = ()
    patterns: tuple[PatternSummary, ...] = ()
    resolved: tuple[str, ...] = ()
    recommendations: tuple[RecommendationSummary, ...] = ()
    net_impact: NetImpactSummary | None = None
    actions_taken: tuple[ActionTaken, ...] = ()
    actions_text: str | None = None
    """The section `Actions taken` as people wrote it."""
    notes: tuple[ReportNote, ...] = ()
    """Text that people added outside the findings."""
    follow_ups: tuple[FollowUpSummary, ...] = ()
    proofs: tuple[ProofSummary, ...] = ()
    """Results of replaying the failures, with commands and logs."""
    cascade: CascadeSaving | None = None
    """Cost and savings of a cascade; null without a cascade."""
    agreement: tuple[JudgeAgreement, ...] = ()
    """Agreement of the judges with people's corrections in this workspace; missing without corrections."""
    usage: CostSummary | None = None


def analysis_from_report(report: Report, findings: Iterable[FindingSummary] | None = None) -> Analysis:
    """Convert a report to the JSON document. Eval ids, usage and `changed` stay empty, because the report lacks them.

    Args:
        report: The report.
        findings: Findings to use instead of the report's own, which lack ids and some citations; None to use the
            report's own.
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
    """Yield a report's finding on each failed eval."""
    outcomes = {proof.eval: proof.outcome for proof in report.proofs}
    for n, entry in enumerate(report.entries, 1):
        group = content_id(sorted(entry.paths))
        for part in entry.each:
            # One proof is stored for all evals of a group, because their replays have the same outcome.
            shared = next((outcomes[path] for path in part.paths if path in outcomes), None)
            yield from (_finding(n, part, ref, group, outcomes.get(ref.path, shared)) for ref in part.evals)


def analyzed_run(run: RunHeader | Run) -> AnalyzedRun:
    """Convert a run, or a report's header about the run, to its form in the JSON document.

    Fields that it lacks are null.
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


@lru_cache(1024)  # few labels differ, and a copy for each of 10,000 findings would take 6 MB
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
