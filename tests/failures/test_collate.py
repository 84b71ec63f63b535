"""Collating findings: recurrence, patterns and recommendations."""

from typing import Any

import pytest

from evalscribe.failures.collate import collate
from evalscribe.model.finding import Correction, Finding, FollowUp, Precedent, Unclassified, Verdict
from evalscribe.model.run import Eval, Run


def verdict(**fields: Any) -> Verdict:
    defaults: dict[str, Any] = {
        "classification": "MODEL_FAULT",
        "cause": "missing-args",
        "cause_kind": "model",
        "confidence": 0.9,
        "error": "TypeError: missing 1 required argument: 'args'",
        "why": "leaves out `args`",
        "reasoning": "It leaves out `args`.",
        "judge": "rules@1",
    }
    return Verdict(**defaults | fields)


def finding(
    name: str, step: str | None = "tests", outcome: Verdict | Unclassified | None = None, **fields: Any
) -> Finding:
    category, _, bare = name.partition("/")
    eval = Eval(id=f"id-{name}", category=category, name=bare, failed_step=step)
    return Finding(group=name, evals=(eval,), verdict=outcome or verdict(), **fields)


def run(*findings: Finding, **fields: Any) -> Run:
    failures = tuple(eval for one in findings for eval in one.evals)
    defaults: dict[str, Any] = {"id": "r1", "provider": "p", "model": "m", "failed": len(failures), "total": 40}
    return Run(**defaults | {"failures": failures} | fields)


def earlier(eval: str, **fields: Any) -> Precedent:
    return Precedent(**{"report": "old.md", "eval": eval} | fields)


def recurrence_kind(one: Finding, *precedents: Precedent) -> str:
    return collate(run(one), [one], {one.paths[0]: precedents}).findings[0].recurrence.kind


def test_an_eval_without_history_is_new() -> None:
    assert recurrence_kind(finding("a/1")) == "new"


@pytest.mark.parametrize(
    ("precedent", "kind"),
    [
        pytest.param({"cause": "missing-args", "step": "tests"}, "repeat", id="same cause"),
        pytest.param({"cause": "other", "step": "tests", "error": "ValueError: no"}, "changed", id="another cause"),
        pytest.param({"cause": "missing-args", "action": "task reworded"}, "fix-in-doubt", id="same cause after a fix"),
        pytest.param({"step": "tests", "classification": "MODEL_FAULT"}, "repeat", id="free form, same step and label"),
        pytest.param({"step": "lint", "classification": "MODEL_FAULT"}, "changed", id="free form, another step"),
        pytest.param({"step": "tests", "classification": "KNOWN_GAP"}, "changed", id="free form, another label"),
        pytest.param({}, "repeat", id="free form that says no more than the name"),
    ],
)
def test_recurrence_kind_depends_on_the_precedent(precedent: dict[str, Any], kind: str) -> None:
    assert recurrence_kind(finding("a/1"), earlier("a/1", **precedent)) == kind


def test_equal_error_is_a_repeat_under_another_cause_name() -> None:
    old = earlier("a/1", cause="other-name", step="tests", error="TypeError: missing 1 required argument: 'args'")
    assert recurrence_kind(finding("a/1"), old) == "repeat"


def test_eval_that_failed_last_time_and_not_now_is_resolved() -> None:
    one = finding("a/1")
    history = {"a/1": (earlier("a/1"),), "a/2": (earlier("a/2"),), "a/3": (earlier("a/3", report="older.md"),)}
    assert collate(run(one), [one], history, "old.md").resolved == ("a/2",)


def test_nothing_is_resolved_if_the_list_of_failures_is_incomplete() -> None:
    one = finding("a/1")
    assert collate(run(one, failed=2), [one], {"a/2": (earlier("a/2"),)}, "old.md").resolved == ()


def test_only_evals_that_ran_are_resolved_if_the_source_lists_all() -> None:
    one = finding("a/1")
    history = {"a/2": (earlier("a/2"),), "a/3": (earlier("a/3"),)}
    assert collate(run(one, evals=("a/1", "a/3")), [one], history, "old.md").resolved == ("a/3",)


def test_patterns_describe_shared_causes_steps_and_categories() -> None:
    lint = verdict(classification="OVERLY_STRICT", cause="prefer-const", cause_kind="lint")
    harness = verdict(classification="OVERLY_STRICT", cause="wrong-port", cause_kind="harness")
    findings = [
        finding("a/1"),
        finding("a/2"),
        finding("a/3", "lint", lint),
        finding("c/1", "lint", lint),
        finding("b/1", "tests", harness),
        finding("b/2", outcome=Unclassified(reason="refused", judge="j")),
    ]
    patterns = {pattern.name: pattern for pattern in collate(run(*findings), findings, {}).patterns}
    assert patterns["Not the model"].evals == ("b/1",)
    assert patterns["Lint decides"].text == "2 of 2 lint failures are caused by the rule, not by the code."
    assert patterns["Same cause: missing args"].evals == ("a/1", "a/2")
    assert patterns["Category a"].text == "3 of 6 failures: 2 model faults, 1 overly strict check."


def test_equal_fixes_are_one_recommendation_and_ids_are_consecutive() -> None:
    lint = verdict(
        classification="OVERLY_STRICT", cause="r", cause_kind="lint", fix="make `r` a warning", would_pass=True
    )
    task = verdict(classification="AMBIGUOUS_TASK", cause="t", cause_kind="task", fix="say which end counts")
    gap = verdict(classification="KNOWN_GAP", cause="g", cause_kind="model")
    down = verdict(classification="KNOWN_GAP", cause="d", cause_kind="infrastructure", fix="run it again")
    findings = [
        finding("a/1", outcome=lint),
        finding("a/2", outcome=lint),
        finding("a/3", outcome=task),
        finding("a/4", outcome=gap),
        finding("a/5", outcome=down),
        finding("a/6"),
    ]
    recommendations = collate(run(*findings), findings, {}).recommendations
    assert [(r.id, r.group, r.evals, r.would_pass) for r in recommendations] == [
        ("R1", "lint", ("a/1", "a/2"), True),
        ("R2", "eval", ("a/3",), False),
        (None, "none", ("a/6",), False),
        (None, "none", ("a/4",), False),
        (None, "none", ("a/5",), False),
    ]


def test_repeated_cause_is_a_note_on_the_model() -> None:
    findings = [finding("a/1"), finding("a/2")]
    notes = [r for r in collate(run(*findings), findings, {}).recommendations if r.group == "model"]
    assert [(note.id, note.text, note.evals) for note in notes] == [(None, "leaves out `args`", ("a/1", "a/2"))]


def test_uncertain_verdicts_give_no_pattern_and_no_note_on_the_model() -> None:
    guess = verdict(cause="unexplained", confidence=0.4, uncertain=True)
    findings = [finding("a/1", outcome=guess), finding("a/2", outcome=guess)]
    collation = collate(run(*findings), findings, {})
    assert [(r.group, r.text) for r in collation.recommendations] == [("none", "settle the label first")]
    assert not collation.patterns


def test_truncated_reason_loses_its_ellipsis_in_a_note() -> None:
    again = finding("a/1", outcome=verdict(why="Argument 1 has type …"))
    recommendations = collate(run(again), [again], {"a/1": (earlier("a/1", cause="missing-args"),)}).recommendations
    assert recommendations[0].text == "Argument 1 has type (also in an earlier run)"


def test_correction_changes_the_group_and_keeps_the_verdict() -> None:
    lint = verdict(
        classification="OVERLY_STRICT", cause="r", cause_kind="lint", fix="make `r` a warning", would_pass=True
    )
    one = finding("a/1", "lint", lint)
    collation = collate(run(one), [one], {}, corrections={"a/1": Correction(classification="MODEL_FAULT")})
    assert [(r.group, r.text) for r in collation.recommendations] == [("none", "the model's own")]
    assert not any(pattern.name == "Lint decides" for pattern in collation.patterns)
    assert collation.findings[0].verdict == lint


def test_recording_test_messages_is_recommended_once_per_run() -> None:
    silent = [
        finding(name, outcome=verdict(error="failed tests: works; counts", uncertain=True, confidence=0.5))
        for name in ("a/1", "a/2")
    ]
    proposals = collate(run(*silent, finding("a/3")), [*silent, finding("a/3")], {}).recommendations
    records = [one for one in proposals if "failureMessages" in one.text]
    assert [(one.group, one.evals, one.id) for one in records] == [("eval", ("a/1", "a/2"), "R1")]
    assert not any(
        "failureMessages" in one.text for one in collate(run(finding("a/3")), [finding("a/3")], {}).recommendations
    )


def test_gap_without_a_note_is_not_reported_as_documented() -> None:
    gap = verdict(classification="KNOWN_GAP", cause_kind="task", fix="name the field in the task")
    noted = verdict(classification="KNOWN_GAP", cause="known-gap-any")
    findings = [finding("a/1", outcome=gap), finding("a/2", outcome=noted)]
    patterns = collate(run(*findings), findings, {}).patterns
    assert [one.evals for one in patterns if one.kind == "known-gaps"] == [("a/2",)]


def recommended(*findings: Finding, **more: Any) -> list[tuple[str | None, str, tuple[str, ...]]]:
    recommendations = collate(run(*findings), findings, {}, **more).recommendations
    return [(one.id, one.text, one.evals) for one in recommendations]


def lint(**fields: Any) -> Verdict:
    defaults: dict[str, Any] = {"classification": "OVERLY_STRICT", "cause": "prefer-const", "cause_kind": "lint"}
    return verdict(**defaults | {"fix": "make `prefer-const` a warning", "would_pass": True} | fields)


def test_shared_lint_rule_is_one_recommendation_despite_different_labels() -> None:
    recommendations = recommended(
        finding("a/1", "lint", lint()),
        finding("a/2", "lint", lint(classification="KNOWN_GAP", fix="relax `prefer-const`")),
        finding("a/3", "lint", verdict(cause="prefer-const", uncertain=True, confidence=0.5)),
        finding("a/4", "lint", verdict(cause="prefer-const")),
    )
    assert recommendations == [
        ("R1", "Make `prefer-const` a warning", ("a/1", "a/2", "a/3")),
        (None, "the model's own", ("a/4",)),
    ]


def test_a_pass_is_claimed_only_if_every_finding_would_pass() -> None:
    findings = [finding("a/1", "lint", lint()), finding("a/2", "lint", lint(would_pass=False))]
    assert [one.would_pass for one in collate(run(*findings), findings, {}).recommendations] == [False]


def test_fix_that_did_not_hold_is_not_proposed_again() -> None:
    port = verdict(
        classification="OVERLY_STRICT",
        cause="refused",
        cause_kind="harness",
        fix="check that the server listens at the address that `g.py` asks, and retry failed connections",
    )
    done = FollowUp(report="old.md", text="Added retry logic to the grader.", evals=("a/1",), outcome="did not hold")
    text = (
        "Check that the server listens at the address that `g.py` asks. "
        "An earlier fix did not hold: Added retry logic to the grader"
    )
    assert recommended(finding("a/1", outcome=port), follow_ups=[done]) == [("R1", text, ("a/1",))]
    held = done.model_copy(update={"outcome": "held"})
    assert "retry failed" in recommended(finding("a/1", outcome=port), follow_ups=[held])[0][1]


def test_failed_fix_without_an_alternative_asks_for_another_cause() -> None:
    retry = verdict(classification="OVERLY_STRICT", cause="r", cause_kind="harness", fix="retry failed connections")
    one = finding("a/1", outcome=retry)
    history = {"a/1": (earlier("a/1", cause="r", action="added retries"),)}
    recommendations = collate(run(one), [one], history).recommendations
    assert recommendations[0].text == "Look for another cause. An earlier fix did not hold: added retries"


def test_logs_that_end_early_are_one_recommendation() -> None:
    short = verdict(error="deploy failed; the log ends before the reason", uncertain=True, confidence=0.5)
    recommendations = recommended(finding("a/1", "deploy", short), finding("a/2", "deploy", short), finding("a/3"))
    assert recommendations == [
        ("R1", "Record the whole log of `deploy`: it ends before the reason", ("a/1", "a/2")),
        (None, "the model's own", ("a/3",)),
    ]


def test_missing_endpoint_is_checked_for_instead_of_running_again() -> None:
    gone = verdict(
        classification="KNOWN_GAP",
        cause="model-not-reachable",
        cause_kind="infrastructure",
        error="AI_APICallError: No endpoints found for vendor/some-model.",
        why="no model output: the provider failed before grading",
    )
    down = verdict(
        classification="KNOWN_GAP",
        cause="down",
        cause_kind="infrastructure",
        error="ReadTimeout",
        why="the package index could not be reached; no code was judged",
    )
    check = "Check before a run that the provider has an endpoint for `vendor/some-model`"
    assert recommended(finding("a/1", None, gone), finding("a/2", None, down)) == [
        ("R1", f"{check}, and end the run as an outage if it has none", ("a/1",)),
        (None, "run again: the package index could not be reached", ("a/2",)),
    ]


def test_note_on_the_model_is_plain_text_with_an_example() -> None:
    recommendations = recommended(
        finding("a/1", outcome=verdict(why="passes 3 arguments instead of 4")),
        finding("a/2", outcome=verdict(why="passes 1 argument instead of 2")),
    )
    assert recommendations[0] == (None, "missing args, for example: passes 3 arguments instead of 4", ("a/1", "a/2"))


def test_patterns_about_the_same_evals_are_merged() -> None:
    findings = [finding("a/1", "lint", lint()), finding("a/2", "lint", lint()), finding("b/1")]
    names = [one.name for one in collate(run(*findings), findings, {}).patterns]
    assert names == ["Lint decides"]


def test_an_outage_of_all_evals_is_no_pattern() -> None:
    down = verdict(classification="KNOWN_GAP", cause="down", cause_kind="infrastructure")
    findings = [finding("a/1", outcome=down)]
    assert collate(run(*findings), findings, {}).patterns == ()
