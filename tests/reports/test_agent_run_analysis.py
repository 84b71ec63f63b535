"""The analysis of an agent's trials by task: whose fault the failures are, and how far they are from passing."""

from typing import Any

import pytest

from evalscribe.model.analysis import Analysis, AnalyzedRun, FindingSummary
from evalscribe.model.finding import TrialCount
from evalscribe.model.record import Record
from evalscribe.model.reference_runs import GradedAnswer, GradedTrial, reference_document
from evalscribe.model.run import Eval, EvalStatus, Step
from evalscribe.model.transcript import AssistantMessage, Transcript, TranscriptToolCall
from evalscribe.reports.agent_run_analysis import render, trial_facts


def finding(eval: str, label: Any = "MODEL_FAULT", kind: Any = "model", **more: Any) -> FindingSummary:
    fields = {"step": "test_a", "reasoning": f"Because of {eval}.", "error": "wrong", "uncertain": False, **more}
    return FindingSummary(n=1, eval=eval, classification=label, cause_kind=kind, **fields)


def analysis(*findings: FindingSummary) -> Analysis:
    run = AnalyzedRun(id="r1", provider="example", model="m-1", started_at="2026-11-22T07:16:35Z")
    return Analysis(run=run, judges=("rules@2",), findings=findings)


def answer(kind: Any, passed: int, total: int) -> GradedAnswer:
    trial = GradedTrial(name="x", failed_at=() if passed else ("test_a",))
    return GradedAnswer(kind=kind, source="s", trials=(trial,), passed=passed, total=total)


def record(
    task: str = "sum",
    trial: int = 1,
    status: EvalStatus = "failed",
    *,
    steps: tuple[Step, ...] = (Step(name="test_a", status="failed", error="wrong"),),
    scores: dict[str, float] | None = None,
    commands: tuple[str, ...] = ("ls",),
    answers: tuple[GradedAnswer, ...] = (),
    **metadata: Any,
) -> Record:
    document = reference_document(answers)
    calls = tuple(TranscriptToolCall(function="bash", arguments={"command": command}) for command in commands)
    eval = Eval(id=f"{task}-{trial}", category="", name=task, trial=trial, trials=3, status=status)
    return Record(
        run_id="r1",
        eval=eval,
        metadata={"scores": scores if scores is not None else {"reward": float(status == "passed")}, **metadata},
        transcripts=(Transcript(id=f"t{trial}", messages=(AssistantMessage(tool_calls=calls),)),),
        steps=() if status == "passed" else steps,
        documents=(document,) if document else (),
    )


def rendered(*records: Record, findings: tuple[FindingSummary, ...] | None = None) -> str:
    if findings is None:
        findings = tuple(finding(f"{one.eval.name}#{one.eval.trial}") for one in records if one.eval.status == "failed")
    return render(analysis(*findings), [trial_facts(one) for one in records])


def test_analysis_starts_with_the_verdict_on_each_task() -> None:
    findings = (
        finding("sum#1"),
        finding("sum#2", uncertain=True),
        finding("clock#1", "OVERLY_STRICT", "grader"),
        finding("net#1", "KNOWN_GAP", "infrastructure"),
    )
    records = [
        record("sum", 1),
        record("sum", 2),
        record("clock"),
        record("net", status="error"),
        record("ok", 1, "passed"),
    ]
    text = rendered(*records, findings=findings)
    assert text.startswith("## Agent Run Analysis\n\n`example/m-1`: 1 of 5 trials of 4 tasks passed.")
    assert "| `sum` | 0/2 | a limit of the agent, 1 of 2 uncertain |" in text
    assert "| `clock` | 0/1 | a defect of the verifier |" in text
    assert "| `net` | 0/1 | nothing: not judged |" in text
    assert "| `ok` | 1/1 | passed |" in text
    assert "Settle `clock`, `net` before the pass rate is used." in text
    assert "### `ok`" not in text


def test_results_of_reference_and_empty_answers_are_shown_per_task() -> None:
    sound = rendered(record(answers=(answer("reference answer", 3, 3), answer("empty answer", 0, 1))))
    assert "| `sum` | 0/1 | 3/3 | 0/1 | a limit of the agent |" in sound
    assert "the reference answer passes 3 of 3 trials; an answer that does nothing fails." in sound
    unsound = rendered(record(status="passed", answers=(answer("empty answer", 1, 1),)))
    assert "suspect: an empty answer passes" in unsound
    assert "an answer that does nothing **passes 1 of 1**" in unsound
    assert "so nothing shows that the task can be passed" in rendered(record())


def test_failure_modes_are_distinguished_by_step_and_message() -> None:
    late = (Step(name="limit", status="failed", error="AgentTimeoutError: after 8 s"),)
    other = (Step(name="test_b", status="failed", error="other"),)
    text = rendered(record(trial=1), record(trial=2), record(trial=3, steps=other + late))
    assert (
        "- **Failure modes**: 2 in 3 failed trials\n  - trials 1, 2: `test_a`; the same message each time: `wrong`"
        in text
    )
    assert "  - trial 3: `test_b`, ended by `AgentTimeoutError: after 8 s`; `other`" in text
    assert "- **Limits**: 1 of 3 trials stopped (trial 3): `AgentTimeoutError: after 8 s`." in text


@pytest.mark.parametrize(
    ("scores", "error", "passed", "expected"),
    [
        ({"reward": 0.94}, "wrong", 0, "1 of 1; trial 1 has reward 0.94 of 1."),
        ({"reward": 0.5}, "wrong", 0, "none by a margin that can be measured; trial 1 has reward 0.5 of 1."),
        (None, "assert 0.94 >= 0.98", 0, "1 of 1; trial 1 measures 0.94 where 0.98 is the threshold, 4.1% off."),
        (None, "wrong", 3, "none by a margin that can be measured; trial 1 passes 3 of 4 tests."),
        ({"reward": 0, "format": 1}, "wrong", 0, "trial 1 has format 1 beside reward 0."),
        (None, "wrong", 0, "unknown; the verifier gives all or nothing."),
    ],
)
def test_near_misses_are_measured(scores: dict[str, float] | None, error: str, passed: int, expected: str) -> None:
    steps = [Step(name=f"test_{n}", status="passed") for n in range(passed)]
    steps.append(Step(name="test_a", status="failed", error=error))
    assert expected in rendered(record(scores=scores, steps=tuple(steps)))


def test_commands_that_name_grading_files_are_shown_even_for_passed_trials() -> None:
    clean = rendered(record(commands=("ls /app/tests/", "cat ../solution/x")))
    assert "- **Reward hacking**: no sign; no command in 1 transcript names" in clean
    text = rendered(record(trial=1), record(trial=2, status="passed", commands=("echo 1 > /logs/verifier/reward.txt",)))
    assert "look at trial 2: files of the grading are named, in trial 2 (passed) by `echo 1 > /logs/verifier/" in text


def test_refusals_and_checks_of_harbor_analyze_are_counted() -> None:
    checks = {"reward_hacking": {"outcome": "pass"}, "near_miss": {"outcome": "fail"}}
    refused = (finding("sum#1", cause="refuses"),)
    text = rendered(record(harbor_analysis={"checks": checks}), findings=refused)
    assert "- **Refusals**: 1 of 1 trial (trial 1)." in text
    assert "- **harbor analyze**: near_miss 1 fail; reward_hacking 1 pass" in text


def test_report_without_stored_trials_says_so() -> None:
    text = render(analysis(finding("sum#2", trials=TrialCount(passed=1, failed=1, total=3))))
    assert "`example/m-1`: 1 of 3 trials of 1 task passed." in text
    assert "the trials are not in this store" in text
    assert "Reward hacking**" not in text


def test_hostile_text_creates_no_heading_or_table_row() -> None:
    evil = "`|x|` <img src=x> [a](http://e)\n## Heading"
    steps = (Step(name="test_a", status="failed", error=evil),)
    findings = (finding("sum#1", error=evil, reasoning=evil),)
    text = rendered(record(steps=steps, scores={evil: 0.5}, trial_name="t__`|\n## Heading`"), findings=findings)
    assert "\n## Heading" not in text
    assert sum(line.startswith("## ") for line in text.split("\n")) == 1
    table = [line for line in text.split("\n") if line.startswith("| 1 ")]
    assert len(table) == 1
