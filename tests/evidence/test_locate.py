"""Locating errors in logs: a table of tool output, then logs that may mislead."""

import pytest

from evalscribe.evidence import locate
from evalscribe.evidence import log as errors
from evalscribe.evidence.log import failed_log
from evalscribe.judging import quotations
from support.tool_output import (
    CARGO,
    ESLINT,
    GO,
    JEST,
    MOCHA,
    NODE,
    PYTEST,
    RUFF_FULL,
    TAP,
    TRACEBACK,
    TSC,
    UNITTEST,
    VITEST,
    evidence,
)

INVALID_CODE = """\
ast.py:50: in parse
    return compile(source, filename, mode, flags,
E     File "test_syn.py", line 1
E       def broken(:
E                  ^
E   SyntaxError: invalid syntax"""

CASES = [
    pytest.param(
        INVALID_CODE, "test", "SyntaxError: invalid syntax", "pytest", None, None, id="pytest, code that is none"
    ),
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
    pytest.param(
        MOCHA,
        "tests",
        "orders > pages: AssertionError [ERR_ASSERTION]: Expected values to be strictly equal: 1 !== 2 -1 +2",
        "mocha",
        None,
        5,
        id="mocha",
    ),
    pytest.param(
        TAP,
        "tests",
        "rejects empty input: Expected values to be strictly equal: '' !== 'x'",
        "TAP",
        None,
        None,
        id="TAP",
    ),
    pytest.param(
        NODE,
        "tests",
        "rejects empty input: AssertionError [ERR_ASSERTION]: Expected values to be strictly equal: '' !== 'x'",
        "node:test",
        None,
        3,
        id="node:test",
    ),
    pytest.param(
        CARGO,
        "tests",
        "called `Option::unwrap()` on a `None` value",
        "cargo test",
        None,
        None,
        id="cargo",
    ),
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
def test_error_of_each_tool_is_located(
    log: str, step: str, error: str, tool: str | None, code: str | None, line: int | None
) -> None:
    log_evidence = evidence(log, step)
    located = locate.locate(log_evidence)
    assert located is not None
    assert (located.error, located.tool, located.code, located.severity) == (error, tool, code, "error")
    assert [place.line for place in located.places[:1]] == ([line] if line else [])
    assert located.citation
    assert quotations.verify_citation(located.citation, log_evidence).status == "verified"
    assert locate.signature(step, located) is not None


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
    "Error: Failed to install dependencies:",
    "✖ No CONVEX_DEPLOYMENT set, run `npx convex dev` to configure a Convex project",
    "",
    "   ",
]


@pytest.mark.parametrize("line", STOCK)
def test_stock_message_is_not_located_as_an_error(line: str) -> None:
    assert errors.is_stock(line)
    located = locate.locate(evidence(f"=== Eval: c/n ===\n[ok] files\n{line}\n", "build", reason=line))
    assert located is None
    assert locate.signature("build", located) is None


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
def test_specific_message_is_not_stock(line: str) -> None:
    assert not errors.is_stock(line)


def test_recorded_reason_is_the_error_without_a_log() -> None:
    located = locate.locate(evidence(None, None, (), reason="error: AI_APICallError: No endpoints found for a/b."))
    assert located is not None
    assert (located.error, located.citation) == ("AI_APICallError: No endpoints found for a/b.", None)


def test_a_recorded_reason_with_tool_output_is_read_like_a_log() -> None:
    reason = "out/src/app.ts\n  3:7  error  'x' is never reassigned. Use 'const' instead  prefer-const"
    located = locate.locate(evidence(None, "eslint", reason=reason))
    assert located is not None
    assert (located.code, located.citation, located.places[0].path) == ("prefer-const", None, "src/app.ts")


def test_errors_come_before_warnings_and_all_are_found() -> None:
    located = locate.locate_all(evidence(ESLINT, "eslint"))
    assert [one.code for one in located] == ["no-undef", "no-unsafe-call", None]
    assert [one.severity for one in located] == ["error", "error", "warning"]


def test_only_errors_of_the_failed_step_are_located() -> None:
    log = "[cmd] bunx eslint\n[eslint] /x/src/app.ts\n[eslint]   1:1  error  old  no-x\n[ok] eslint\n" + TSC
    assert [one.code for one in locate.locate_all(evidence(log, "deploy"))] == ["TS2339"]
    part = failed_log(evidence(log, "deploy"))
    assert part is not None
    assert part.first == 5
    assert part.text.startswith("[error] Deploying")


def test_errors_of_two_failed_steps_are_separated_by_step_name() -> None:
    log = ESLINT.replace("[vitest]       Tests  3 passed (3)\n", "") + VITEST
    assert {one.tool for one in locate.locate_all(evidence(log, "eslint"))} == {"eslint"}
    assert {one.tool for one in locate.locate_all(evidence(log, "tests"))} == {"vitest"}


def test_text_printed_by_tests_does_not_change_the_outcome() -> None:
    outcome = locate.tests(evidence(VITEST, "tests"))
    assert [failure.name for failure in outcome.failures] == ["rejects empty input", "counts rows"]
    assert (outcome.runner, outcome.passed, outcome.failed) == ("vitest", 1, 2)
    fake = PYTEST.replace(">       assert", "[ok] tests\n[cmd] pytest\n99 passed in 1.0s\n>       assert")
    outcome = locate.tests(evidence(fake, "tests"))
    assert (outcome.passed, outcome.failed, outcome.all_passed) == (7, 1, False)
    located = locate.locate(evidence(fake, "tests"))
    assert located is not None
    assert located.test == "test_range"


def test_colours_line_ends_and_nul_bytes_change_nothing() -> None:
    coloured = ESLINT.replace("error ", "\x1b[31merror\x1b[0m ").replace("\n", "\r\n").replace("'React'", "\x00'React'")
    log_evidence = evidence(coloured, "eslint")
    located = locate.locate(log_evidence)
    assert located is not None
    assert located.error == "'React' is not defined (no-undef)"
    assert located.citation
    assert quotations.verify_citation(located.citation, log_evidence).status == "verified"


def test_path_outside_the_folder_gives_no_place() -> None:
    located = locate.locate(evidence("../../etc/passwd.py:3:1: E999 nothing here", "lint"))
    assert located is not None
    assert located.places == ()


def test_line_beyond_the_file_gives_no_place() -> None:
    located = locate.locate(evidence("src/app.py:4000:1: E501 too long", "lint"))
    assert located is not None
    assert located.places == ()


def test_multi_line_error_is_quoted_from_its_first_line() -> None:
    log = (
        "[error] deploy: Error: Failed to deploy:\n"
        f"src/app.ts:43:3 - error TS2322: Type '{'A' * 300}' is not assignable to type 'B'.\n"
        f"  Type '{'A' * 500}' is not assignable to type '{{ success: false; }}'.\n"
        "    Types of property 'success' are incompatible.\n"
        "      Type 'boolean' is not assignable to type 'false'.\n\n43   handler: async () => {\n"
    )
    located = locate.locate(evidence(log, "deploy"))
    assert located is not None
    assert (
        located.error
        == "TS2322: Types of property 'success' are incompatible. Type 'boolean' is not assignable to type 'false'."
    )
    assert located.citation
    assert (located.citation.first, located.citation.last) == (2, 5)


ANNOUNCED = [
    (
        "✖ Error: Hit an error while pushing:\nLoading the pushed modules encountered the following\n    error:\n"
        "Couldn't find default export in module `http.js`",
        "Couldn't find default export in module `http.js`",
        (1, 4),
    ),
    ("Hit an error while evaluating your schema:\n\nA bad index name\n    at x (a.js:1:2)", "A bad index name", (1, 3)),
    ("Error: Cannot find module from:\n\n  src/app.ts", "Cannot find module from: src/app.ts", (1, 3)),
    ("TypeError: not a function:\n    at f (src/app.ts:3:1)", "TypeError: not a function:", (1, 1)),
]


@pytest.mark.parametrize(("log", "error", "lines"), ANNOUNCED)
def test_error_that_ends_in_a_colon_includes_the_reason_below(log: str, error: str, lines: tuple[int, int]) -> None:
    located = locate.locate_all(evidence(log, "deploy"))
    assert [one.error for one in located] == [error]
    assert located[0].citation
    assert (located[0].citation.first, located[0].citation.last) == lines


@pytest.mark.parametrize(
    ("log", "names", "counts", "summary"),
    [
        (VITEST, ["rejects empty input", "counts rows"], (1, 2), "Tests  2 failed | 1 passed (3)"),
        (PYTEST, ["test_range"], (7, 1), "1 failed, 7 passed in 0.12s"),
        (JEST, ["adds › two numbers"], (2, 1), "Tests:       1 failed"),
        (UNITTEST, ["test_sum"], (1, 1), "Ran 2 tests in 0.001s\n\nFAILED (failures=1)"),
        (GO, ["TestSum"], (1, 1), "FAIL"),
        (MOCHA, ["orders > pages"], (1, 1), "1 passing (5ms)\n  1 failing"),
        (TAP, ["rejects empty input", "pages"], (1, 2), "# fail 2\n# duration_ms 370"),
        (NODE, ["rejects empty input"], (1, 1), "ℹ fail 1\nℹ duration_ms 504"),
        (CARGO, ["tests::raises", "tests::adds"], (1, 2), "1 passed; 2 failed"),
    ],
    ids=["vitest", "pytest", "jest", "unittest", "go", "mocha", "TAP", "node:test", "cargo"],
)
def test_failed_tests_and_counts_are_read(log: str, names: list[str], counts: tuple[int, int], summary: str) -> None:
    outcome = locate.tests(evidence(log, "tests"))
    assert [failure.name for failure in outcome.failures] == names
    assert (outcome.passed, outcome.failed) == counts
    assert outcome.summary
    assert summary in outcome.summary.text


@pytest.mark.parametrize(
    "banner", [" RUN  v4.0.18 /x\n", "TAP version 13\n", "running 3 tests\n", "=== RUN   TestSum\n", "ℹ tests 3\n"]
)
def test_banner_of_a_test_runner_is_not_an_error(banner: str) -> None:
    log_evidence = evidence(f"[error] tests: Error: Tests failed (ratio: 0.0)\n[cmd] run tests\n{banner}", "tests")
    assert locate.locate(log_evidence) is None
