"""Several trials of one task: how many passed, estimates from them, and one finding for the trials of a task."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import comb

from evalscribe.model.finding import Finding, TrialCount
from evalscribe.model.run import TRIAL, Run


def pass_at_k(passed: int, trials: int, k: int) -> float:
    """Estimate the probability that at least one of `k` trials passes, without bias.

    Chen et al. 2021, "Evaluating Large Language Models Trained on Code", https://arxiv.org/abs/2107.03374, section 2.1.

    Args:
        passed: Trials that passed.
        trials: All trials of the task.
        k: At least 1 and at most `trials`.

    Raises:
        ValueError: The numbers do not fit together.
    """
    _check(passed, trials, k)
    return 1 - comb(trials - passed, k) / comb(trials, k)


def pass_hat_k(passed: int, trials: int, k: int) -> float:
    """Estimate the probability that all of `k` trials pass, without bias.

    Yao et al. 2024, "tau-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains",
    https://arxiv.org/abs/2406.12045, section 3. Arguments and errors as for `pass_at_k`.
    """
    _check(passed, trials, k)
    return comb(passed, k) / comb(trials, k)


def _check(passed: int, trials: int, k: int) -> None:
    if not (0 <= passed <= trials and 1 <= k <= trials):
        raise ValueError(f"{passed} of {trials} trials passed, k = {k}")


def count_trials(run: Run) -> Mapping[str, TrialCount]:
    """Count the trials of each task that has several, by the task's path, in the order of the run.

    A run that lists only failures leaves out tasks without any; one that lists fewer failures than it has is not
    counted, because the rest may be of any task.
    """
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


def merge_trials(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return one finding for the trials of a task that failed for the same cause, at the place of the first.

    It keeps the verdict of the first trial about which the judge is certain. Undecided trials stay on their own.
    """
    merged: dict[tuple[object, ...], Finding] = {}
    for number, finding in enumerate(findings):
        key = _task_and_cause(finding) or (number,)
        merged[key] = _joined(merged[key], finding) if key in merged else finding
    return tuple(merged.values())


def _task_and_cause(finding: Finding) -> tuple[object, ...] | None:
    tasks = {eval.task for eval in finding.evals}
    verdict = finding.judged
    if verdict is None or len(tasks) != 1 or finding.evals[0].trials < 2:
        return None
    return (*tasks, verdict.classification, verdict.cause_kind, verdict.cause)


def _joined(first: Finding, other: Finding) -> Finding:
    evals = sorted((*first.evals, *other.evals), key=lambda eval: eval.trial)
    better = first.judged and other.judged and first.judged.uncertain and not other.judged.uncertain
    missing = dict.fromkeys((*first.missing, *other.missing))
    return (other if better else first).model_copy(update={"evals": tuple(evals), "missing": tuple(missing)})


def all_trials_failed(findings: Sequence[Finding], counts: Mapping[str, TrialCount]) -> tuple[str, ...]:
    """Return the tasks that failed in every one of several trials; first those that every model fails."""
    never: dict[str, bool] = {}
    for finding in findings:
        for eval in finding.evals:
            if eval.task in counts and counts[eval.task].never_passed:
                everyone = finding.across is not None and finding.across.failing >= finding.across.models
                never[eval.task] = never.get(eval.task, True) and everyone
    return tuple(sorted(never, key=lambda task: not never[task]))
