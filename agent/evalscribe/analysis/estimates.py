"""Outcomes of an analysis, and the estimate of its cost that is made before any model is called."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from evalscribe.analysis.prepare import PreparedRun
from evalscribe.errors import ConsentError
from evalscribe.failures.trials import MIN_AGREEING, find_outliers
from evalscribe.ids import Frozen
from evalscribe.judging.builder import FailureJudge, estimating_judge
from evalscribe.judging.cascade import FailureCascade
from evalscribe.judging.rules.engine import RulesJudge, decided_by_people
from evalscribe.judging.verdicts import AnalysisWatcher
from evalscribe.model.analysis import Analysis, CostSummary, analyzed_run
from evalscribe.model.cascade import STAGES, CascadeSaving, Stage
from evalscribe.model.finding import Failure, FailureGroup, Finding, Verdict
from evalscribe.model.protocols import Estimate
from evalscribe.model.report import Report
from evalscribe.model.run import TARGET, Run
from evalscribe.reports.outline import cascade_saving, saved_by_cascade
from evalscribe.text import pluralise


class NothingFailed(Frozen):
    """The outcome for a run without failures. Nothing was written."""

    run: Run
    message: str

    @property
    def analysis(self) -> Analysis:
        """The analysis as a document for JSON output, without findings."""
        return Analysis(run=analyzed_run(self.run), changed=False, usage=CostSummary())


class StagePlan(Frozen):
    """Maximum number of failures that one stage of a cascade judges, and the estimated cost."""

    stage: Stage
    judge: str
    verdicts: int
    estimate: Estimate


class AnalysisPlan(Frozen):
    """The number of groups of failures in a run, their judge, and the estimated cost of judging them."""

    run: Run
    judge: str
    groups: int
    cached: int
    """Number of groups that need not be judged, because their verdict is in the store, was proved by replay, or follows
    from people's corrections.
    """
    estimate: Estimate
    stages: tuple[StagePlan, ...] = ()
    """The stages of the cascade that might have to judge failures. Empty without a cascade."""
    again: int = 0
    """Maximum number of trials that are judged a second time because their label differs from the label of the other
    trials of their task.

    The cost of the second time is included in `estimate`, but not in `stages`.
    """

    @property
    def cost(self) -> str:
        """The estimate as text: `about 120,000 tokens, $1.20`, or `up to about …` if trials might be judged a second
        time.
        """
        if not self.again:
            return self.estimate.summary
        return f"up to {self.estimate.summary}, with up to {pluralise(self.again, 'trial')} judged again"


class AnalysisAdvice(Frozen):
    """Estimated cost of asking a model about the failures on which the verdict of the rules is uncertain."""

    judge: str
    estimate: Estimate


class AnalysisResult(Frozen):
    """Result of a finished analysis."""

    run: Run
    report: Report
    text: str
    """Text of the report, as it is on disk."""
    name: str
    """Name of the report: its path relative to the reports folder, with `/`."""
    path: Path
    state: Literal["new", "updated", "unchanged"]
    analysis: Analysis
    notes: tuple[str, ...] = ()
    """Notes for the user, for example on where the report was written and what could not be read."""
    uncertain: tuple[str, ...] = ()
    """Paths of the evals whose verdict is uncertain."""
    unclassified: tuple[str, ...] = ()
    advice: AnalysisAdvice | None = None


def plan_analysis(prepared: PreparedRun) -> AnalysisPlan:
    """Estimate the cost of judging a run.

    Groups with a cached verdict are included only with `--fresh`. Groups whose verdict was proved by replay or follows
    from people's corrections are never included, because they are never judged.
    """
    cached, stage_estimates = 0, []
    trials = _Trials(prepared)
    proved = [group for group in prepared.groups if prepared.proved(group)]
    cached += len(proved)
    for group in prepared.groups:
        case = prepared.case(group) if group not in proved else None
        if not isinstance(case, Failure):
            continue
        if decided_by_people(case):
            cached += 1
            continue
        verdict = None if prepared.workspace.options.fresh else prepared.cached_verdict(case)
        if verdict is not None:
            cached += 1
            trials.add(group, None, verdict)
        else:
            stage_estimates.append(_stages(prepared.analyst, case))
            trials.add(group, sum(stage_estimates[-1].values(), Estimate()), None)
    again = tuple(trials.estimates())
    return AnalysisPlan(
        run=prepared.run,
        judge=prepared.analyst.judge.id,
        groups=len(prepared.groups),
        cached=cached,
        estimate=sum((*(estimate for stages in stage_estimates for estimate in stages.values()), *again), Estimate()),
        again=len(again),
        stages=_planned(prepared.analyst.cascade, stage_estimates) if prepared.analyst.cascade else (),
    )


class _Trials:
    """Estimates how many trials are judged a second time, because their label differs from the label of the other
    trials of their task.
    """

    def __init__(self, prepared: PreparedRun) -> None:
        self._prepared = prepared
        self._evals = {eval.id: eval for eval in prepared.run.failures}
        self._estimates: dict[str, list[Estimate]] = defaultdict(list)
        self._failed = Counter(eval.task for eval in prepared.run.failures)
        self._cached: list[Finding] = []

    def add(self, group: FailureGroup, estimate: Estimate | None, verdict: Verdict | None) -> None:
        """Add a group, either with its stored verdict or with the estimated cost of judging it."""
        evals = tuple(self._evals[eval_id] for eval_id in group.eval_ids)
        if verdict is not None:
            self._cached.append(Finding(group=group.id, evals=evals, verdict=verdict))
        # A trial can only be an outlier if at least `MIN_AGREEING` other failed trials of its task agree.
        elif self._failed[evals[0].task] > MIN_AGREEING:
            self._estimates[evals[0].task].append(estimate or Estimate())

    def estimates(self) -> Iterator[Estimate]:
        """Yield one estimate for each task in which a trial might be an outlier.

        A task has at most one outlier. If groups of a task still need a verdict, the estimate with the most input
        tokens among these groups is used.
        """
        if not self._prepared.analyst.models:
            return
        for estimates in self._estimates.values():
            yield max(estimates, key=lambda estimate: estimate.input_tokens)
        findings = [finding for finding in self._cached if finding.evals[0].task not in self._estimates]
        of_group = {group.id: group for group in self._prepared.groups}
        for group_id, other_trials in find_outliers(findings).items():
            case = self._prepared.case(of_group[group_id])
            if isinstance(case, Failure):
                again = case.model_copy(update={"others": other_trials})
                if not self._prepared.knows(again):
                    yield self._prepared.analyst.judge.estimate(again)


def _stages(analyst: FailureJudge, case: Failure) -> Mapping[Stage, Estimate]:
    return analyst.cascade.estimates(case) if analyst.cascade else {"judge": analyst.judge.estimate(case)}


def _planned(cascade: FailureCascade, planned: Sequence[Mapping[Stage, Estimate]]) -> tuple[StagePlan, ...]:
    """Plan the worst case, in which every failure is passed on to all stages that could judge it."""
    of_stage: dict[Stage, list[Estimate]] = defaultdict(list)
    for stages in planned:
        # A cascade returns no estimates if its rules are certain of their verdict.
        for stage, estimate in (stages or {"rules": Estimate()}).items():
            of_stage[stage].append(estimate)
    judges: dict[Stage, str] = {"rules": cascade.judges[0], "tag": cascade.first.id, "judge": cascade.alone.id}
    return tuple(
        StagePlan(
            stage=stage, judge=judges[stage], verdicts=len(stage_estimates), estimate=sum(stage_estimates, Estimate())
        )
        for stage, stage_estimates in sorted(of_stage.items(), key=lambda item: STAGES.index(item[0]))
    )


def announce_plan(prepared: PreparedRun, watcher: AnalysisWatcher, *, rules_instead: bool) -> PreparedRun:
    """Announce the cost of calling models, and require the user's consent.

    Args:
        prepared: The run and its judge.
        watcher: Receives the announcement.
        rules_instead: Let the rules judge if the user does not consent; if False, raise `ConsentError`.

    Returns:
        The prepared run. If the rules replace the model, the rules are set as its judge.
    """
    if not prepared.analyst.models:
        return prepared
    plan = plan_analysis(prepared)
    uncached = plan.groups - plan.cached
    for line in stage_lines(plan):
        watcher.say(line)
    if not prepared.analyst.cascade:
        watcher.say(f"{plan.judge} for {uncached} of {plan.groups} verdicts: {plan.cost}")
    elif plan.again:
        watcher.say(f"In all {plan.cost}")
    if not uncached and not plan.again:
        return prepared
    try:
        prepared.workspace.consent.require(*prepared.analyst.models, estimate=plan.estimate)
    except ConsentError as error:
        if not rules_instead:
            raise
        watcher.say(f"The rules judge: {error}", error.fields)
        return replace(prepared, analyst=FailureJudge(judge=RulesJudge()))
    return prepared


def stage_lines(plan: AnalysisPlan) -> list[str]:
    """Render a line for each stage of a cascade, such as `Stage tag: openai/gpt-5 for 4 of 10 verdicts: about …`."""
    return [
        f"Stage {stage.stage}: {stage.judge} for {'at most ' if stage.stage == 'judge' else ''}{stage.verdicts} of "
        f"{plan.groups} verdicts: {'free' if stage.stage == 'rules' else stage.estimate.summary}"
        for stage in plan.stages
    ]


def describe_saving(prepared: PreparedRun, findings: Iterable[Finding]) -> CascadeSaving | None:
    """Compare the cost of the cascade with the estimated cost of using only its expensive judge.

    Returns None without a cascade.
    """
    cascade = prepared.analyst.cascade
    if cascade is None:
        return None
    of_group = {group.id: group for group in prepared.groups}
    spared = {f.group: of_group[f.group] for f in findings if f.judged and saved_by_cascade(f.judged)}
    cases = {name: prepared.case(group) for name, group in spared.items()}
    estimates = {name: cascade.alone.estimate(case) for name, case in cases.items() if isinstance(case, Failure)}
    return cascade_saving(tuple(findings), estimates, cascade.alone.id)


def analysis_advice(prepared: PreparedRun, unsure: Sequence[Finding]) -> AnalysisAdvice | None:
    """Estimate the cost of asking the default model about findings that are uncertain.

    Returns None if there are no findings, if a model has already judged the run, or if all findings are about a target
    that gave no answer.
    """
    of_group = {group.id: group for group in prepared.groups}
    groups = [of_group[finding.group] for finding in unsure]
    # If the target gave no answer, a model would see only the exception that the rules already quote.
    if prepared.analyst.models or all(finding.step == TARGET for finding in unsure):
        return None
    model = estimating_judge()
    return AnalysisAdvice(judge=model.id, estimate=sum(map(model.estimate, _cases(prepared, groups)), Estimate()))


def _cases(prepared: PreparedRun, groups: Iterable[FailureGroup]) -> Iterator[Failure]:
    """Yield the case of each group, one at a time, so that they are never all in memory together."""
    return (case for case in map(prepared.case, groups) if isinstance(case, Failure))
