"""Rules about failed tests: behaviour that the task never asks for, and checks that look in the wrong place."""

from evalscribe.model.finding import Failure
from support.rules_failure import decide, make_failure, pytest_log

GUARD = (
    "def adults(users, age):\n    if age < 0:\n        raise ValueError('age must not be negative')\n    return users\n"
)
PLAIN = "def adults(users, age):\n    return users\n"


def guarded(task: str, passed: int = 5) -> Failure:
    log = pytest_log(("test_negative_ages", "ValueError: age must not be negative"), passed=passed)
    return make_failure(log=log, output={"a.py": GUARD}, expected={"a.py": PLAIN}, task=task)


def test_guard_that_the_task_leaves_open_is_overly_strict() -> None:
    verdict = decide(guarded("Return the users of at least this age."))
    assert (verdict.classification, verdict.cause_kind) == ("OVERLY_STRICT", "grader")
    assert ("output", 3) in {(c.role, c.first) for c in verdict.citations}


def test_guard_is_a_model_fault_if_the_task_covers_it_or_no_test_passes() -> None:
    assert decide(guarded("Return the users. A negative age raises KeyError.")).classification == "MODEL_FAULT"
    assert decide(guarded("Return the users, None if the age is below zero.")).classification == "MODEL_FAULT"
    assert decide(guarded("Return the users of at least this age.", passed=0)).classification == "MODEL_FAULT"


def test_missing_structure_is_overly_strict_unless_the_task_asks_for_it() -> None:
    parts = {
        "log": pytest_log(
            ("test_function_spec", "AssertionError: assert {'a': 1} == {'a': 1, 'returns': 2}"), passed=6
        ),
        "output": {"a.ts": "export const list = query({\n  args: {},\n});\n"},
        "expected": {"a.ts": "export const list = query({\n  args: {},\n  returns: v.any(),\n});\n"},
    }
    silent = decide(make_failure(task="Export a query `list`.", **parts))  # type: ignore[arg-type]
    explicit = decide(make_failure(task="Export a query `list` with `args` and `returns`.", **parts))  # type: ignore[arg-type]
    assert (silent.classification, explicit.classification) == ("OVERLY_STRICT", "MODEL_FAULT")
    assert "`returns`" in silent.why
    assert silent.uncertain


def test_failed_check_for_a_text_that_the_output_contains_is_overly_strict() -> None:
    log = pytest_log(("test_labels", "AssertionError: expected '[…]' to contain 'run every second'"), passed=1)
    line = 'crons.interval("run every second", task);\n'
    containing = make_failure(log=log, output={"a.ts": line + "a();\n"}, expected={"a.ts": line + "b();\n"})
    missing = make_failure(log=log, output={"a.ts": "a();\n"}, expected={"a.ts": line})
    assert decide(containing).classification == "OVERLY_STRICT"
    assert decide(missing).classification == "MODEL_FAULT"
