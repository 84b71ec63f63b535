"""Count the trials of each task, estimate pass rates, and merge findings on trials of the same task."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from evalscribe.model.finding import Finding, TrialCount, TrialRates, TrialVerdict, proves, undecided
from evalscribe.model.run import TRIAL, Run
from evalscribe.statistics.intervals import pass_at, pass_every


def count_trials(run: Run) -> Mapping[str, TrialCount]:
    """Return the trial counts of each task that has several trials, by task path, in the order of the run.

    If the run lists only failures, tasks that always passed are missing. If the run's list of failures is incomplete,
    the result is empty.
    """
    # The missing failures can belong to any task.
    if len(run.failures) < run.failed:
        return {}
    failed = Counter(eval.task for eval in run.failures)
    totals = {eval.task: eval.trials for eval in run.failures if eval.trials > 1}
    listed = Counter(TRIAL.sub("", path) for path in run.evals or () if TRIAL.search(path))
    unfinished = Counter(TRIAL.sub("", path) for path in run.incomplete_evals)
    counted = {}
    for task in dict.fromkeys((*listed, *totals)):
        total = max(totals.get(task, 0), listed[task])
        if total > 1:
            passed = max(0, total - failed[task] - unfinished[task])
            counted[task] = TrialCount(passed=passed, failed=failed[task], total=total)
    return counted


def trial_rates(run: Run) -> TrialRates | None:
    """Estimate the share of tasks that a run passes in at least one of k trials, and in all of k trials.

    Returns None if no task has several trials, or if the run lists only failures.
    """
    counts = count_trials(run).values()
    if not counts or run.evals is None:
        return None
    # A task with fewer than k trials has no estimate, so k is the smallest number of trials.
    k = min(count.total for count in counts)
    return TrialRates(
        tasks=len(counts),
        k=k,
        pass_at=fmean(pass_at(count.passed, count.total, k) or 0.0 for count in counts),
        pass_hat=fmean(pass_every(count.passed, count.total, k) or 0.0 for count in counts),
    )


def merge_trials(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings on trials of one task that have the same label, certainty and cause.

    The merged finding takes the place of the first of these findings, and keeps the original findings in `joined`.
    Undecided trials are not merged.
    """
    groups: dict[tuple[object, ...], list[Finding]] = defaultdict(list)
    for number, finding in enumerate(findings):
        groups[_task_and_cause(finding) or (number,)].append(finding)
    return tuple(map(_joined, groups.values()))


def _task_and_cause(finding: Finding) -> tuple[object, ...] | None:
    tasks = {eval.task for eval in finding.evals}
    verdict = finding.judged
    if verdict is None or len(tasks) != 1 or finding.evals[0].trials < 2:
        return None
    return (*tasks, verdict.classification, verdict.uncertain, verdict.cause_kind, verdict.cause)


def _joined(trials: Sequence[Finding]) -> Finding:
    first, *later = sorted(trials, key=lambda finding: finding.evals[0].trial)
    if not later:
        return first
    evals = sorted((eval for finding in trials for eval in finding.evals), key=lambda eval: eval.trial)
    return first.model_copy(update={"evals": tuple(evals), "joined": (first, *later)})


MIN_AGREEING = 2
"""Minimum number of trials that agree on a label before a trial with another label counts as an outlier."""
# A task with 5,000 trials would fill the prompt.
MOST_SHOWN = 20
"""Maximum number of other trials' verdicts that the judge of an outlier is shown."""


def find_outliers(findings: Iterable[Finding]) -> Mapping[str, tuple[TrialVerdict, ...]]:
    """Find each trial whose label differs from the label on which all other failed trials of its task agree.

    Returns:
        At most `MOST_SHOWN` verdicts of the other trials, by the group id of the outlier. A task has at most one
            outlier. A trial is not an outlier if its verdict was proved or is provisional, if a model gave no
            answer and the rules engine judged instead, or if its group has several evals.
    """
    tasks: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        decided = finding.judged is not None and undecided(finding.verdict) is None and not finding.judged.provisional
        if decided and len({eval.task for eval in finding.evals}) == 1 and finding.evals[0].trials > MIN_AGREEING:
            tasks[finding.evals[0].task].append(finding)
    return {outlier.group: verdicts for trials in tasks.values() for outlier, verdicts in _outlier(trials)}


def _outlier(trials: Sequence[Finding]) -> Iterator[tuple[Finding, tuple[TrialVerdict, ...]]]:
    """Yield the outlier among one task's trials, if there is one, with the verdicts of the other trials."""
    counts = Counter(_label(finding) for finding in trials for _ in finding.evals)
    # One against one, two against two, or three labels do not show which trial is judged wrongly.
    if len(counts) != 2 or min(counts.values()) != 1 or max(counts.values()) < MIN_AGREEING:
        return
    outlier = next(finding for finding in trials if counts[_label(finding)] == 1)
    # A replay proved the label, so a judge is not asked again.
    if outlier.judged is None or proves(outlier.judged.judge):
        return
    verdicts = (
        TrialVerdict(trial=eval.trial, classification=verdict.classification, cause=verdict.cause, why=verdict.why)
        for finding in trials
        if finding is not outlier and (verdict := finding.judged)
        for eval in finding.evals
    )
    yield outlier, tuple(sorted(verdicts, key=lambda verdict: verdict.trial)[:MOST_SHOWN])


def _label(finding: Finding) -> str | None:
    return finding.judged.classification if finding.judged else None


def all_trials_failed(findings: Sequence[Finding], counts: Mapping[str, TrialCount]) -> tuple[str, ...]:
    """Return the tasks that have several trials and failed in all of them. Tasks that every model fails come first."""
    never: dict[str, bool] = {}
    for finding in findings:
        for eval in finding.evals:
            if eval.task in counts and counts[eval.task].never_passed:
                everyone = finding.across is not None and finding.across.failing >= finding.across.models
                never[eval.task] = never.get(eval.task, True) and everyone
    return tuple(sorted(never, key=lambda task: not never[task]))
