"""What findings share, from findings made by hand."""

from typing import Any

import pytest

from evalscribe.failures.collate import collate
from evalscribe.model.finding import Correction, Finding, Precedent, Unclassified, Verdict
from evalscribe.model.run import Eval, Run


def verdict(**fields: Any) -> Verdict:
    given: dict[str, Any] = {
        "classification": "MODEL_FAULT",
        "cause": "missing-args",
        "cause_kind": "model",
        "confidence": 0.9,
        "error": "TypeError: missing 1 required argument: 'args'",
        "why": "leaves out `args`",
        "reasoning": "It leaves out `args`.",
        "judge": "rules@1",
    }
    return Verdict(**given | fields)


def finding(name: str, step: str = "tests", said: Verdict | Unclassified | None = None, **fields: Any) -> Finding:
    category, _, bare = name.partition("/")
    eval = Eval(id=f"id-{name}", category=category, name=bare, failed_step=step)
    return Finding(group=name, evals=(eval,), verdict=said or verdict(), **fields)


def run(*findings: Finding, **fields: Any) -> Run:
    failures = tuple(eval for one in findings for eval in one.evals)
    given: dict[str, Any] = {"id": "r1", "provider": "p", "model": "m", "failed": len(failures), "total": 40}
    return Run(**given | {"failures": failures} | fields)


def earlier(eval: str, **fields: Any) -> Precedent:
    return Precedent(**{"report": "old.md", "eval": eval} | fields)


def seen(one: Finding, *precedents: Precedent) -> str:
    return collate(run(one), [one], {one.paths[0]: precedents}).findings[0].recurrence.kind


def test_an_eval_without_history_is_new() -> None:
    assert seen(finding("a/1")) == "new"


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
def test_recurrence(precedent: dict[str, Any], kind: str) -> None:
    assert seen(finding("a/1"), earlier("a/1", **precedent)) == kind


def test_an_equal_error_is_a_repeat_under_another_name() -> None:
    old = earlier("a/1", cause="other-name", step="tests", error="TypeError: missing 1 required argument: 'args'")
    assert seen(finding("a/1"), old) == "repeat"


def test_resolved_is_what_failed_last_time_and_not_now() -> None:
    one = finding("a/1")
    history = {"a/1": (earlier("a/1"),), "a/2": (earlier("a/2"),), "a/3": (earlier("a/3", report="older.md"),)}
    assert collate(run(one), [one], history, "old.md").resolved == ("a/2",)


def test_nothing_is_called_resolved_when_the_list_is_short() -> None:
    one = finding("a/1")
    assert collate(run(one, failed=2), [one], {"a/2": (earlier("a/2"),)}, "old.md").resolved == ()


def test_only_evals_that_ran_are_resolved_where_the_source_names_all() -> None:
    one = finding("a/1")
    history = {"a/2": (earlier("a/2"),), "a/3": (earlier("a/3"),)}
    assert collate(run(one, evals=("a/1", "a/3")), [one], history, "old.md").resolved == ("a/3",)


def test_patterns_name_what_is_shared() -> None:
    lint = verdict(classification="OVERLY_STRICT", cause="prefer-const", cause_kind="lint")
    harness = verdict(classification="OVERLY_STRICT", cause="wrong-port", cause_kind="harness")
    findings = [
        finding("a/1"),
        finding("a/2"),
        finding("a/3", "lint", lint),
        finding("c/1", "lint", lint),
        finding("b/1", "tests", harness),
        finding("b/2", said=Unclassified(reason="refused", judge="j")),
    ]
    found = {pattern.name: pattern for pattern in collate(run(*findings), findings, {}).patterns}
    assert found["Not the model"].evals == ("b/1",)
    assert found["Lint decides"].text == "2 of 2 lint failures are about the rule."
    assert found["Same cause: missing-args"].evals == ("a/1", "a/2")
    assert found["Category a"].text == "3 of 6 failures, 2 of them the model's."


def test_equal_fixes_are_one_recommendation_and_ids_count_on() -> None:
    lint = verdict(
        classification="OVERLY_STRICT", cause="r", cause_kind="lint", fix="make `r` a warning", would_pass=True
    )
    task = verdict(classification="AMBIGUOUS_TASK", cause="t", cause_kind="task", fix="say which end counts")
    gap = verdict(classification="KNOWN_GAP", cause="g", cause_kind="model")
    down = verdict(classification="KNOWN_GAP", cause="d", cause_kind="infrastructure", fix="run it again")
    findings = [
        finding("a/1", said=lint),
        finding("a/2", said=lint),
        finding("a/3", said=task),
        finding("a/4", said=gap),
        finding("a/5", said=down),
        finding("a/6"),
    ]
    made = collate(run(*findings), findings, {}).recommendations
    assert [(r.id, r.group, r.evals, r.would_pass) for r in made] == [
        ("R1", "eval", ("a/3",), False),
        ("R2", "lint", ("a/1", "a/2"), True),
        (None, "none", ("a/6",), False),
        (None, "none", ("a/4",), False),
        (None, "none", ("a/5",), False),
    ]


def test_what_the_model_repeats_is_a_note_on_the_model() -> None:
    findings = [finding("a/1"), finding("a/2")]
    notes = [r for r in collate(run(*findings), findings, {}).recommendations if r.group == "model"]
    assert [(note.id, note.text, note.evals) for note in notes] == [(None, "leaves out `args`.", ("a/1", "a/2"))]


def test_a_guess_is_no_shared_cause_no_note_on_the_model_and_nobodys_own() -> None:
    guess = verdict(cause="unexplained", confidence=0.4, uncertain=True)
    findings = [finding("a/1", said=guess), finding("a/2", said=guess)]
    collation = collate(run(*findings), findings, {})
    assert [(r.group, r.text) for r in collation.recommendations] == [("none", "uncertain: settle the label first.")]
    assert not collation.patterns


def test_a_cut_reason_is_a_whole_sentence_in_a_note() -> None:
    again = finding("a/1", said=verdict(why="Argument 1 has type …"))
    made = collate(run(again), [again], {"a/1": (earlier("a/1", cause="missing-args"),)}).recommendations
    assert made[0].text == "Argument 1 has type (in an earlier run too)."


def test_a_correction_moves_the_failure_to_its_group_and_keeps_the_judges_verdict() -> None:
    lint = verdict(
        classification="OVERLY_STRICT", cause="r", cause_kind="lint", fix="make `r` a warning", would_pass=True
    )
    one = finding("a/1", "lint", lint)
    collation = collate(run(one), [one], {}, corrections={"a/1": Correction(classification="MODEL_FAULT")})
    assert [(r.group, r.text) for r in collation.recommendations] == [("none", "the model's own.")]
    assert not any(pattern.name == "Lint decides" for pattern in collation.patterns)
    assert collation.findings[0].verdict == lint


def test_recording_test_messages_is_recommended_once_per_run() -> None:
    silent = [
        finding(name, said=verdict(error="failed tests: works; counts", uncertain=True, confidence=0.5))
        for name in ("a/1", "a/2")
    ]
    found = collate(run(*silent, finding("a/3")), [*silent, finding("a/3")], {}).recommendations
    records = [one for one in found if "failureMessages" in one.text]
    assert [(one.group, one.evals, one.id) for one in records] == [("eval", ("a/1", "a/2"), "R1")]
    assert not any(
        "failureMessages" in one.text for one in collate(run(finding("a/3")), [finding("a/3")], {}).recommendations
    )


def test_gap_without_a_note_is_not_reported_as_documented() -> None:
    gap = verdict(classification="KNOWN_GAP", cause_kind="task", fix="name the field in the task")
    noted = verdict(classification="KNOWN_GAP", cause="known-gap-any")
    found = [finding("a/1", said=gap), finding("a/2", said=noted)]
    patterns = collate(run(*found), found, {}).patterns
    assert [one.evals for one in patterns if one.kind == "known-gaps"] == [("a/2",)]
