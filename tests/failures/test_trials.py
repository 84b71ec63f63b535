"""Trials of one task: counts, estimates, and one finding for those that failed for the same cause."""

from itertools import combinations
from statistics import mean
from typing import Any

import pytest

from evalscribe.failures.collate import collate
from evalscribe.failures.trials import TrialCount, count_trials, merge_trials, pass_at_k, pass_hat_k
from evalscribe.model.finding import CrossModelFailures, Finding, Unclassified, Verdict
from evalscribe.model.run import Eval, Run


def verdict(**fields: Any) -> Verdict:
    values: dict[str, Any] = {
        "classification": "MODEL_FAULT",
        "cause": "never-calls-book",
        "cause_kind": "model",
        "confidence": 0.8,
        "error": "`book` is never called",
        "why": "never calls `book`",
        "reasoning": "It never calls `book`.",
        "judge": "rules@2",
    }
    return Verdict(**values | fields)


def trial(task: str, number: int, said: Verdict | Unclassified | None = None, trials: int = 4, **more: Any) -> Finding:
    eval = Eval(id=f"{task}-{number}", category="airline", name=task, trial=number, trials=trials)
    return Finding(group=f"{task}-{number}", evals=(eval,), verdict=said or verdict(), **more)


def run(findings: list[Finding], tasks: dict[str, int] | None = None, **fields: Any) -> Run:
    failures = tuple(eval for finding in findings for eval in finding.evals)
    evals = None if tasks is None else tuple(f"airline/{t}#{n}" for t, all in tasks.items() for n in range(1, all + 1))
    values = {"id": "r", "provider": "p", "model": "m", "failed": len(failures), "failures": failures, "evals": evals}
    return Run(**values | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("passed", "trials"), [(0, 4), (1, 4), (3, 4), (4, 4), (2, 7), (1, 1)])
def test_estimates_are_the_mean_over_all_choices_of_trials(passed: int, trials: int) -> None:
    outcomes = [True] * passed + [False] * (trials - passed)
    for k in range(1, trials + 1):
        chosen = list(combinations(outcomes, k))
        assert pass_at_k(passed, trials, k) == pytest.approx(mean(any(one) for one in chosen))
        assert pass_hat_k(passed, trials, k) == pytest.approx(mean(all(one) for one in chosen))


@pytest.mark.parametrize("numbers", [(5, 4, 1), (-1, 4, 1), (1, 4, 0), (1, 4, 5), (0, 0, 1)])
def test_numbers_that_do_not_fit_together_are_refused(numbers: tuple[int, int, int]) -> None:
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match="trials passed"):
            estimate(*numbers)


def test_trials_that_failed_for_the_same_cause_are_one_finding() -> None:
    unsure = verdict(uncertain=True, confidence=0.5, why="maybe")
    findings = [
        trial("1", 3, unsure),
        trial("2", 1),
        trial("1", 1, missing=("no log",)),
        trial("1", 2, verdict(cause="refuses")),
        trial("1", 4, Unclassified(reason="refused", judge="j")),
    ]
    merged = merge_trials(findings)
    assert [one.paths for one in merged] == [
        ("airline/1#1", "airline/1#3"),
        ("airline/2#1",),
        ("airline/1#2",),
        ("airline/1#4",),
    ]
    assert merged[0].verdict == verdict()
    assert merged[0].missing == ("no log",)


def test_evals_without_trials_stay_on_their_own() -> None:
    findings = [trial("1", 1, trials=1), trial("1", 1, trials=1)]
    assert merge_trials(findings) == tuple(findings)


def test_trials_are_counted_by_task() -> None:
    findings = [trial("1", 1), trial("1", 2), trial("1", 4), trial("2", 1)]
    counts = count_trials(run(findings, {"1": 4, "2": 4, "3": 4}, incomplete_evals=("airline/2#3",)))
    assert counts == {
        "airline/1": TrialCount(passed=1, failed=3, total=4),
        "airline/2": TrialCount(passed=2, failed=1, total=4),
        "airline/3": TrialCount(passed=4, failed=0, total=4),
    }


def test_a_short_list_of_failures_counts_nothing() -> None:
    assert count_trials(run([trial("1", 1)], failed=2)) == {}


def test_tasks_that_no_trial_of_any_model_passes_are_named_first() -> None:
    everyone = CrossModelFailures(alike=("p/x", "p/y"), models=3)
    findings = [
        *(trial("1", n) for n in range(1, 5)),
        *(trial("2", n, across=everyone) for n in range(1, 5)),
        trial("3", 1),
    ]
    collation = collate(run(findings, {"1": 4, "2": 4, "3": 4}), findings, {})
    pattern = collation.patterns[0]
    assert (pattern.name, pattern.kind) == ("Fails in every trial", "trials")
    assert pattern.text == (
        "`airline/2`, `airline/1` never passed; 1 other task in some trials. A task that nobody passes may be broken."
    )
    assert pattern.evals[0] == "airline/2#1"
    assert [len(finding.evals) for finding in collation.findings] == [4, 4, 1]
