"""Trials of one task: counts, estimates, and one finding for those that failed for the same cause."""

import asyncio
from typing import Any

import pytest

from evalscribe.failures.collate import collate
from evalscribe.failures.trials import MOST_SHOWN, TrialCount, count_trials, find_outliers, merge_trials, trial_rates
from evalscribe.judging.verdicts import JudgeQueue
from evalscribe.model.evidence import Evidence, PackedEvidence
from evalscribe.model.finding import (
    CrossModelFailures,
    Failure,
    FailureGroup,
    Finding,
    TrialVerdict,
    Unclassified,
    Verdict,
)
from evalscribe.model.protocols import Estimate
from evalscribe.model.run import Eval, Run
from support.analysis_graph import MemoryStore


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


def trial(
    task: str, number: int, outcome: Verdict | Unclassified | None = None, trials: int = 4, **more: Any
) -> Finding:
    eval = Eval(id=f"{task}-{number}", category="airline", name=task, trial=number, trials=trials)
    return Finding(group=f"{task}-{number}", evals=(eval,), verdict=outcome or verdict(), **more)


def run(findings: list[Finding], tasks: dict[str, int] | None = None, **fields: Any) -> Run:
    failures = tuple(eval for finding in findings for eval in finding.evals)
    evals = None if tasks is None else tuple(f"airline/{t}#{n}" for t, all in tasks.items() for n in range(1, all + 1))
    values = {"id": "r", "provider": "p", "model": "m", "failed": len(failures), "failures": failures, "evals": evals}
    return Run(**values | fields)  # type: ignore[arg-type]


def test_trials_with_equal_label_certainty_and_cause_are_merged_into_one_finding() -> None:
    other = verdict(why="never calls `book` either", error="never")
    findings = [
        trial("1", 3, other),
        trial("2", 1),
        trial("1", 1, missing=("no log",)),
        trial("1", 2, verdict(uncertain=True, confidence=0.5)),
        trial("1", 4, Unclassified(reason="refused", judge="j")),
    ]
    merged = merge_trials(findings)
    assert [one.paths for one in merged] == [
        ("airline/1#1", "airline/1#3"),
        ("airline/2#1",),
        ("airline/1#2",),
        ("airline/1#4",),
    ]
    assert [(one.paths, one.verdict, one.missing) for one in merged[0].each] == [
        (("airline/1#1",), verdict(), ("no log",)),
        (("airline/1#3",), other, ()),
    ]


def test_evals_without_trials_are_not_merged() -> None:
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


def test_trials_are_not_counted_if_the_list_of_failures_is_incomplete() -> None:
    assert count_trials(run([trial("1", 1)], failed=2)) == {}


def test_rates_are_means_over_all_tasks_with_trials() -> None:
    findings = [trial("1", 1), trial("1", 2), trial("1", 3), trial("1", 4), trial("2", 1)]
    rates = trial_rates(run(findings, {"1": 4, "2": 4, "3": 4}))
    assert rates is not None
    assert (rates.tasks, rates.k) == (3, 4)
    assert round(rates.pass_at, 3) == 0.667
    assert round(rates.pass_hat, 3) == 0.333
    assert trial_rates(run(findings)) is None


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


def test_a_task_that_the_reference_answer_passes_is_not_called_broken() -> None:
    findings = [
        *(trial("1", n) for n in range(1, 5)),
        *(trial("2", n, reference_passes=True) for n in range(1, 5)),
    ]
    tasks = {"1": 4, "2": 4}
    assert collate(run(findings, tasks), findings, {}).patterns[0].text == (
        "`airline/1`, `airline/2` never passed. The reference answer passes `airline/2`. "
        "A task that nobody passes, not even the reference answer, may be broken."
    )
    assert collate(run(findings[4:], tasks), findings[4:], {}).patterns[0].text == (
        "`airline/2` never passed. The reference answer passes `airline/2`."
    )


def test_cause_pattern_counts_every_failed_trial() -> None:
    findings = [trial("1", 1), trial("1", 2), trial("2", 1)]
    same = next(one for one in collate(run(findings), findings, {}).patterns if one.kind == "cause")
    assert same.text == "3 model faults."


STRICT = verdict(classification="OVERLY_STRICT", cause_kind="user", cause="user-ends-early", why="ends early")


def test_one_trial_against_two_that_agree_is_an_outlier() -> None:
    outliers = find_outliers(
        [trial("1", 1), trial("1", 2, STRICT), trial("1", 4), trial("2", 1), trial("2", 2, STRICT)]
    )
    others = [
        TrialVerdict(trial=n, classification="MODEL_FAULT", cause="never-calls-book", why="never calls `book`")
        for n in (1, 4)
    ]
    assert outliers == {"1-2": tuple(others)}


def test_the_judge_of_an_outlier_sees_a_bounded_number_of_other_trials() -> None:
    (others,) = find_outliers([trial("1", n, STRICT if n == 500 else None) for n in range(1, 1_000)]).values()
    assert [other.trial for other in others] == list(range(1, MOST_SHOWN + 1))


@pytest.mark.parametrize(
    "findings",
    [
        pytest.param([trial("1", 1), trial("1", 2, STRICT)], id="one against one"),
        pytest.param([trial("1", n, STRICT if n > 2 else None) for n in range(1, 5)], id="two against two"),
        pytest.param(
            [trial("1", 1), trial("1", 2), trial("1", 3, STRICT), trial("1", 4, verdict(classification="KNOWN_GAP"))],
            id="two that disagree with each other",
        ),
        pytest.param(
            [trial("1", 1), trial("1", 2), trial("1", 3, Unclassified(reason="refused", judge="j"))], id="undecided"
        ),
        pytest.param(
            [trial("1", 1), trial("1", 2), trial("1", 3, STRICT.model_copy(update={"judge": "replay@1"}))], id="proved"
        ),
        pytest.param([trial(str(n), 1, STRICT if n == 1 else None) for n in range(3)], id="other tasks"),
    ],
)
def test_trials_without_a_lone_dissenting_judgement_have_no_outlier(findings: list[Finding]) -> None:
    assert find_outliers(findings) == {}


class LabellingJudge:
    """Labels each trial, and an outlier again; remembers the trials that it was asked about."""

    id = "scripted@1"

    def __init__(self, again: Verdict | Unclassified) -> None:
        self.asked: list[tuple[int, tuple[int, ...]]] = []
        self._again = again

    def key(self, case: Failure) -> str:
        return f"{case.evidence.eval.path} {[one.model_dump() for one in case.others]}"

    def estimate(self, case: Failure) -> Estimate:
        return Estimate()

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        number = case.evidence.eval.trial
        self.asked.append((number, tuple(one.trial for one in case.others)))
        return self._again if case.others else STRICT if number == 2 else verdict()


def queue(judge: LabellingJudge, store: MemoryStore, trials: int = 4) -> JudgeQueue:
    played = run([trial("1", n) for n in range(1, trials + 1)])
    evals = {eval.id: eval for eval in played.failures}

    def case(group: FailureGroup) -> Failure:
        return Failure(evidence=Evidence(eval=evals[group.eval_ids[0]]), packed=PackedEvidence(excerpts=()))

    groups = tuple(FailureGroup(id=eval_id, eval_ids=(eval_id,)) for eval_id in evals)
    return JudgeQueue(
        run=played,
        groups=groups,
        case_of=case,
        judge=judge,
        store=store,  # type: ignore[arg-type]
        outliers=find_outliers,
    )


@pytest.mark.parametrize("workers", [1, 4])
async def test_outlier_is_judged_once_more_and_its_verdict_is_stored(workers: int) -> None:
    store, judge = MemoryStore(), LabellingJudge(verdict(why="looked again"))
    judge_queue = queue(judge, store)
    counts = await asyncio.gather(*(judge_queue.work() for _ in range(workers)))
    assert sum(one.total for one in counts) == 4
    assert sorted(judge.asked) == [(1, ()), (2, ()), (2, (1, 3, 4)), (3, ()), (4, ())]
    assert judge.asked[-1] == (2, (1, 3, 4)), "only when all trials have a verdict"
    assert [one.judged.why for one in judge_queue.findings() if one.judged][1] == "looked again"
    again = queue(judge, store)
    await again.work()
    assert len(judge.asked) == 5
    assert again.findings() == judge_queue.findings()


async def test_outlier_keeps_its_verdict_if_the_second_judgement_fails() -> None:
    judge = LabellingJudge(Unclassified(reason="no budget", judge="scripted@1", cause="budget"))
    judge_queue = queue(judge, MemoryStore())
    await judge_queue.work()
    assert judge_queue.findings()[1].verdict == STRICT


async def test_two_disagreeing_trials_are_judged_only_once() -> None:
    judge = LabellingJudge(verdict())
    judge_queue = queue(judge, MemoryStore(), trials=2)
    await judge_queue.work()
    assert len(judge.asked) == 2


def test_tasks_that_nobody_passed_come_first() -> None:
    findings = [trial("1", 1), trial("2", 1, never_passed=True), trial("3", 1)]
    assert [one.paths[0] for one in collate(run(findings), findings, {}).findings] == [
        "airline/2#1",
        "airline/1#1",
        "airline/3#1",
    ]
