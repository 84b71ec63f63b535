"""Rules about the model's own faults, and failures that no rule covers."""

from support.rules_failure import decide, make_failure, pytest_log

STOCK = "[error] types: mypy failed"


def test_code_that_does_not_compile_is_a_model_fault() -> None:
    log = (
        '[cmd] mypy a.py\na.py:2: error: Argument 1 to "sorted" has incompatible type "set[str]"  [arg-type]\n' + STOCK
    )
    verdict = decide(
        make_failure("types", log=log, output={"a.py": "x = 1\ny = sorted(x)\n"}, expected={"a.py": "y = 1\n"})
    )
    assert (verdict.classification, verdict.cause) == ("MODEL_FAULT", "arg-type-sorted")
    assert {("output", 2), ("log", 3)} <= {(c.role, c.first) for c in verdict.citations}


def test_wrong_behaviour_is_a_model_fault() -> None:
    verdict = decide(
        make_failure(log=pytest_log(("test_page", "AssertionError: assert [1] == [2]")), output={"a.py": "x = 1\n"})
    )
    assert (verdict.classification, verdict.cause) == ("MODEL_FAULT", "fails-test-page")
    assert "1 of 1 tests" in verdict.reasoning


def test_missing_file_named_by_the_task_is_the_cause() -> None:
    verdict = decide(
        make_failure(
            "types",
            log=STOCK,
            output={"src/cron_jobs.py": "x = 1\n"},
            expected={"src/crons.py": "x = 1\n"},
            task="Write `crons.py`.",
        )
    )
    assert (verdict.rule, verdict.cause) == ("asked-for-by-name", "missing-file-crons-py")


def test_unknown_name_is_the_cause_if_the_log_has_no_reason() -> None:
    verdict = decide(
        make_failure(
            "types",
            log=STOCK,
            output={"a.ts": "let y = db.rows();\nfor (const x of db.all().iter()) f(x);\n"},
            expected={"a.ts": "let y = db.rows();\nfor (const x of db.all()) f(x);\n"},
        )
    )
    assert (verdict.rule, verdict.cause) == ("uses-unknown-name", "unknown-name-iter")
    assert verdict.error == "types failed; the log ends before the reason"


def test_failure_that_no_rule_covers_is_an_uncertain_model_fault() -> None:
    verdict = decide(
        make_failure("types", log=STOCK, output={"a.ts": "let y = 1;\n"}, expected={"a.ts": "let y = 2;\n"})
    )
    assert (verdict.classification, verdict.rule, verdict.uncertain) == ("MODEL_FAULT", None, True)
    assert verdict.confidence <= 0.5
    assert "mypy failed" not in verdict.error


def test_failure_without_documents_still_gets_a_verdict() -> None:
    verdict = decide(make_failure("tests"))
    assert verdict.uncertain
    assert verdict.citations == ()


def test_why_states_the_difference_from_the_reference() -> None:
    parts = {"log": STOCK, "expected": {"a.ts": "run({\n  options: pageOptions,\n  size: 1,\n});\n"}}
    other = decide(make_failure("types", output={"a.ts": "run({\n  options: v.shape({\n  size: 1,\n});\n"}, **parts))  # type: ignore[arg-type]
    more = decide(
        make_failure("types", output={"a.ts": "run({\n  options: pageOptions.iter(),\n  size: 1,\n});\n"}, **parts)
    )  # type: ignore[arg-type]
    assert other.why == "`v.shape` where the reference has `pageOptions`"
    assert more.why == "uses `pageOptions.iter`, which reference, task and grader never mention"


def test_first_suspect_is_not_a_trivial_difference() -> None:
    ours = "import { b, a } from 'x';\nfor (const k of keys(a)) use(a);\n"
    theirs = "import { a, b } from 'x';\nfor (const k of a.flat()) use(a);\n"
    verdict = decide(make_failure("types", log=STOCK, output={"a.ts": ours}, expected={"a.ts": theirs}, task="keys"))
    assert verdict.why == "first suspect a.ts:2"
