"""Where a log says why: one table of tool output, then the ways a log may mislead."""

import time

import pytest

from evalscribe import signature
from evalscribe.evidence import Document, Evidence
from evalscribe.judging import cite
from evalscribe.run import Eval, Step, StepStatus


def evidence(
    log: str | None, step: str | None = "build", outputs: tuple[str, ...] = ("src/app.py", "src/app.ts"), **more: str
) -> Evidence:
    documents = [
        Document(role="output", path=path, text="\n".join(f"line {n}" for n in range(1, 60))) for path in outputs
    ]
    documents += [Document(role="log", path="run.log", text=log)] if log is not None else []
    steps = (Step(name=step, status="failed", error=f"{step} failed"),) if step else ()
    one = Eval(id="e1", category="c", name="n", failed_step=step, reason=more.get("reason", f"{step} failed"))
    return Evidence(eval=one, steps=steps, documents=tuple(documents))


VITEST = """\
[error] vitest: Error: Tests failed (ratio: 0.5)
[cmd] bunx vitest run grader.test.ts
[vitest]  RUN  v3.0.4 /home/someone
[vitest]
[vitest] stdout | grader.test.ts > prints
[vitest]    × not a test 1ms
[vitest]      → invented
[vitest]
[vitest]  ❯ grader.test.ts (3 tests | 2 failed) 54ms
[vitest]    ✓ works
[vitest]    × rejects empty input 16ms
[vitest]      → [SERVER Q(index:get)] [Request ID: c1a148a787bbace6] Server Error
[vitest] ValidationError: Object contains extra field `pageStatus`.
[vitest]     at handler (../src/app.ts:11:13)
[vitest]    × counts rows 2ms
[vitest]      → expected 400 to be 200 // Object.is equality
[vitest]
[vitest]  Test Files  1 failed (1)
[vitest]       Tests  2 failed | 1 passed (3)
"""
PYTEST = """\
[cmd] pytest
============================= test session starts ==============================
.F                                                                       [100%]
=================================== FAILURES ===================================
_________________________________ test_range ___________________________________

    def test_range():
>       assert between(1, 3) == [1, 2, 3]
E       assert [1, 2] == [1, 2, 3]
E         Right contains one more item: 3

src/app.py:9: AssertionError
=========================== short test summary info ============================
FAILED test_grader.py::test_range - assert [1, 2] == [1, 2, 3]
========================= 1 failed, 7 passed in 0.12s ==========================
[error] tests: pytest failed
"""
JEST = """\
FAIL src/app.test.ts
  ● adds › two numbers

    expect(received).toBe(expected) // Object.is equality

    Expected: 4
    Received: 3

      at Object.<anonymous> (src/app.ts:5:3)

Tests:       1 failed, 2 passed, 3 total
"""
UNITTEST = """\
.F
======================================================================
FAIL: test_sum (test_app.Case)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/tmp/x/src/app.py", line 4, in test_sum
    self.assertEqual(1, 2)
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 2 tests in 0.001s

FAILED (failures=1)
"""
GO = """\
=== RUN   TestSum
    sum_test.go:7: got 1, want 2
--- FAIL: TestSum (0.00s)
    sum_test.go:9: wrong sum
--- PASS: TestOther (0.00s)
FAIL
"""
TSC = """\
[error] Deploying backend on port 33229: Error: Failed to deploy:
src/app.ts:34:16 - error TS2339: Property 'index' does not exist on type '{}'.

34       internal.index.store,
                  ~~~~~

Found 1 error in src/app.ts:34
"""
ESLINT = """\
[error] Linting (eslint): Error: Failed to lint code:

/tmp/evals/output/model/src/app.ts
   3:7  warning  Unused eslint-disable directive (no problems were reported from 'no-x')
  11:34  error  'React' is not defined                no-undef
  12:1   error  Unsafe use of `any`  @typescript-eslint/no-unsafe-call

✖ 2 problems (2 errors, 0 warnings)
[cmd] bunx vitest run
[vitest]  RUN  v3.0.4 /x
[vitest]       Tests  3 passed (3)
"""
RUFF_FULL = """\
PLW2901 `for` loop variable `x` overwritten by assignment target
  --> src/app.py:12:9
   |
12 |         x = x.strip()
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "/tmp/run-1/src/app.py", line 3, in <module>
    main()
KeyError: 'name'
"""
CASES = [
    pytest.param(TSC, "deploy", "TS2339: Property 'index' does not exist on type '{}'.", "tsc", "TS2339", 34, id="tsc"),
    pytest.param(
        "src/app.ts(7,3): error TS2554: Expected 4 arguments, but got 3.",
        "tsc",
        "TS2554: Expected 4 arguments, but got 3.",
        "tsc",
        "TS2554",
        7,
        id="tsc plain",
    ),
    pytest.param(ESLINT, "eslint", "'React' is not defined (no-undef)", "eslint", "no-undef", 11, id="eslint"),
    pytest.param(
        "src/app.py:15:62: ANN401 `typing.Any` is disallowed",
        "lint",
        "`typing.Any` is disallowed (ANN401)",
        "ruff",
        "ANN401",
        15,
        id="ruff",
    ),
    pytest.param(
        RUFF_FULL,
        "lint",
        "`for` loop variable `x` overwritten by assignment target (PLW2901)",
        "ruff",
        "PLW2901",
        12,
        id="ruff full",
    ),
    pytest.param(
        'src/app.py:13: error: Item "None" has no attribute "x"  [union-attr]',
        "types",
        'Item "None" has no attribute "x" (union-attr)',
        "mypy",
        "union-attr",
        13,
        id="mypy",
    ),
    pytest.param(
        "error[E0308]: mismatched types\n --> src/app.py:4:5",
        "build",
        "mismatched types (E0308)",
        "compiler",
        "E0308",
        4,
        id="rustc",
    ),
    pytest.param(
        '✘ [ERROR] Could not resolve "./missing"\n\n    src/app.ts:2:18:',
        "deploy",
        'Could not resolve "./missing"',
        "bundler",
        None,
        2,
        id="esbuild",
    ),
    pytest.param(
        VITEST, "tests", "ValidationError: Object contains extra field `pageStatus`.", "vitest", None, 11, id="vitest"
    ),
    pytest.param(PYTEST, "tests", "test_range: assert [1, 2] == [1, 2, 3]", "pytest", None, 9, id="pytest"),
    pytest.param(
        JEST,
        "tests",
        "adds › two numbers: expect(received).toBe(expected) Expected: 4 Received: 3",
        "jest",
        None,
        5,
        id="jest",
    ),
    pytest.param(UNITTEST, "tests", "test_sum: AssertionError: 1 != 2", "unittest", None, 4, id="unittest"),
    pytest.param(GO, "tests", "sum_test.go:9: wrong sum", "go test", None, None, id="go"),
    pytest.param(TRACEBACK, "run", "KeyError: 'name'", "python", None, 3, id="traceback"),
    pytest.param(
        "ERROR: No matching distribution found for left-pad==9",
        "install",
        "No matching distribution found for left-pad==9",
        "pip",
        None,
        None,
        id="pip",
    ),
    pytest.param("npm error code ERESOLVE", "install", "code ERESOLVE", "npm", None, None, id="npm"),
    pytest.param(
        "[error] deploy: Error: Failed to deploy:\nUncaught InvalidConfig: bad cron name\n    at f (../src/app.ts:3:1)",
        "deploy",
        "InvalidConfig: bad cron name",
        None,
        None,
        3,
        id="unknown error class",
    ),
    pytest.param(
        "[error] deploy: Error: Failed to deploy:\n- Preparing...\nThe cron name is taken",
        "deploy",
        "The cron name is taken",
        None,
        None,
        None,
        id="below a heading",
    ),
]


@pytest.mark.parametrize(("log", "step", "error", "tool", "code", "line"), CASES)
def test_the_error_is_located(
    log: str, step: str, error: str, tool: str | None, code: str | None, line: int | None
) -> None:
    given = evidence(log, step)
    found = signature.locate(given)
    assert found is not None
    assert (found.error, found.tool, found.code, found.severity) == (error, tool, code, "error")
    assert [place.line for place in found.places[:1]] == ([line] if line else [])
    assert found.citation
    assert cite.verify(found.citation, given).status == "verified"
    assert signature.signature(step, found) is not None


STOCK = [
    "deploy failed",
    "Tests failed (ratio: 0.5)",
    "convex dev failed",
    "[error] Deploying generated backend on port 41692: Error: Failed to deploy:",
    "[error] tests: pytest failed",
    "[error] vitest: Error: Tests failed (ratio: 0.3333333333333333)",
    "Linting (eslint): Error: Failed to lint code:",
    "Tests failed (ratio: 0.5): 2 failed",
    "✖ TypeScript typecheck via `tsc` failed.",
    "Process exited with code 1",
    "error: command failed with exit code 1",
    "Found 1 error.",
    "Server Error",
    "",
    "   ",
]


@pytest.mark.parametrize("line", STOCK)
def test_a_stock_message_is_no_error(line: str) -> None:
    assert signature.is_stock(line)
    found = signature.locate(evidence(f"=== Eval: c/n ===\n[ok] files\n{line}\n", "build", reason=line))
    assert found is None
    assert signature.signature("build", found) is None


@pytest.mark.parametrize(
    "line",
    [
        "fetch failed",
        "Error: connection refused",
        "TypeError: x is not a function",
        "AI_APICallError: No endpoints found for a/b.",
        "Cannot find module 'left-pad'",
        "rate limit exceeded",
    ],
)
def test_a_message_that_says_what_is_not_stock(line: str) -> None:
    assert not signature.is_stock(line)


def test_what_the_source_recorded_is_the_error_where_there_is_no_log() -> None:
    found = signature.locate(evidence(None, None, (), reason="error: AI_APICallError: No endpoints found for a/b."))
    assert found is not None
    assert (found.error, found.citation) == ("AI_APICallError: No endpoints found for a/b.", None)


def test_a_recorded_reason_with_tool_output_is_read_like_a_log() -> None:
    reason = "out/src/app.ts\n  3:7  error  'x' is never reassigned. Use 'const' instead  prefer-const"
    found = signature.locate(evidence(None, "eslint", reason=reason))
    assert found is not None
    assert (found.code, found.citation, found.places[0].path) == ("prefer-const", None, "src/app.ts")


def test_errors_come_before_warnings_and_all_are_found() -> None:
    found = signature.locate_all(evidence(ESLINT, "eslint"))
    assert [one.code for one in found] == ["no-undef", "no-unsafe-call", None]
    assert [one.severity for one in found] == ["error", "error", "warning"]


def test_only_the_failed_step_counts() -> None:
    log = "[cmd] bunx eslint\n[eslint] /x/src/app.ts\n[eslint]   1:1  error  old  no-x\n[ok] eslint\n" + TSC
    assert [one.code for one in signature.locate_all(evidence(log, "deploy"))] == ["TS2339"]
    part = signature.failed_log(evidence(log, "deploy"))
    assert part is not None
    assert part.first == 5
    assert part.text.startswith("[error] Deploying")


def test_the_failed_step_of_two_is_told_by_its_name() -> None:
    log = ESLINT.replace("[vitest]       Tests  3 passed (3)\n", "") + VITEST
    assert {one.tool for one in signature.locate_all(evidence(log, "eslint"))} == {"eslint"}
    assert {one.tool for one in signature.locate_all(evidence(log, "tests"))} == {"vitest"}


def test_what_tests_print_is_not_believed() -> None:
    outcome = signature.tests(evidence(VITEST, "tests"))
    assert [failure.name for failure in outcome.failures] == ["rejects empty input", "counts rows"]
    assert (outcome.runner, outcome.passed, outcome.failed) == ("vitest", 1, 2)
    fake = PYTEST.replace(">       assert", "[ok] tests\n[cmd] pytest\n99 passed in 1.0s\n>       assert")
    outcome = signature.tests(evidence(fake, "tests"))
    assert (outcome.passed, outcome.failed, outcome.all_passed) == (7, 1, False)
    found = signature.locate(evidence(fake, "tests"))
    assert found is not None
    assert found.test == "test_range"


@pytest.mark.parametrize(
    ("log", "runner", "passed", "failed"),
    [
        (VITEST, "vitest", 1, 2),
        (PYTEST, "pytest", 7, 1),
        (JEST, "jest", 2, 1),
        (UNITTEST, "unittest", 1, 1),
        (GO, "go test", 1, 1),
    ],
)
def test_tests_are_counted(log: str, runner: str, passed: int, failed: int) -> None:
    given = evidence(log, "tests")
    outcome = signature.tests(given)
    assert (outcome.runner, outcome.passed, outcome.failed) == (runner, passed, failed)
    assert len(outcome.failures) == failed
    assert all(cite.verify(failure.citation, given).status == "verified" for failure in outcome.failures)


@pytest.mark.parametrize(("status", "passed"), [("passed", True), ("failed", False)])
def test_the_recorded_step_outranks_what_the_log_says(status: StepStatus, passed: bool) -> None:
    given = evidence("[cmd] pytest\n...  [100%]\n3 passed in 0.1s\n", "lint")
    given = given.model_copy(update={"steps": (Step(name="tests", status=status),)})
    assert signature.tests(given).all_passed is passed
    assert signature.tests(given).passed == 3


def test_a_log_without_a_runner_has_no_counts() -> None:
    outcome = signature.tests(evidence("5 passed in 0.1s\nTests  5 passed (5)\n", "lint"))
    assert (outcome.runner, outcome.passed, outcome.all_passed) == (None, None, False)


def test_colours_line_ends_and_nul_bytes_change_nothing() -> None:
    coloured = ESLINT.replace("error ", "\x1b[31merror\x1b[0m ").replace("\n", "\r\n").replace("'React'", "\x00'React'")
    given = evidence(coloured, "eslint")
    found = signature.locate(given)
    assert found is not None
    assert found.error == "'React' is not defined (no-undef)"
    assert found.citation
    assert cite.verify(found.citation, given).status == "verified"


def test_a_path_that_leaves_the_folder_points_nowhere() -> None:
    found = signature.locate(evidence("../../etc/passwd.py:3:1: E999 nothing here", "lint"))
    assert found is not None
    assert found.places == ()


def test_a_line_beyond_the_file_is_no_place() -> None:
    found = signature.locate(evidence("src/app.py:4000:1: E501 too long", "lint"))
    assert found is not None
    assert found.places == ()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "log",
    [
        "x" * 5_000_000,
        "error: " + "a:1:" * 500_000,
        "\n" * 400_000,
        " (" * 800_000,
        ("E " * 40 + "\n") * 20_000,
        "/" * 2_000_000,
    ],
    ids=["one line", "colons", "empty lines", "brackets", "many lines", "slashes"],
)
def test_huge_logs_take_bounded_time(log: str) -> None:
    given = evidence("[error] build: failed\n" + log)
    assert len(signature.locate_all(given)) <= 50
    assert signature.tests(given).failed in (None, 0)


HEADERS = "[error] tests: failed\n RUN  v3.0.4 /x\n======= FAILURES =======\n"
SHAPES = {
    "blanks": "   × " + " " * 19_000 + "x",
    "underscores": "a_" * 9_000,
    "brackets": "FAILED " + "[" * 15_000 + " x",
    "rules": "_" * 9_000 + " " + "_ " * 5_000,
    "words": "Error" * 4_000,
    "slashes": "error: " + "/a" * 9_000,
    "dots": "A.a." * 5_000,
    "spaces": "  1:1  error  " + "x  " * 6_000,
    "words and blanks": "a " * 9_000 + "failed",
    "at": "    at " + "x:1" * 6_000,
    "urls": "http://" * 2_500,
    "digits": "E   " + "1a" * 9_000,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("header", ["[error] build: failed\n", HEADERS, HEADERS.replace(" RUN", "no")])
def test_long_lines_of_every_shape_take_bounded_time(shape: str, header: str) -> None:
    given = evidence(header + f"{shape}\n" * 100, "tests", reason=shape)
    start = time.process_time()
    for one in signature.locate_all(given):
        signature.signature("tests", one)
    signature.tests(given)
    assert time.process_time() - start < 5
