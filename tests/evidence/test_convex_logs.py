"""Locating the reason of a failure in logs of the current Convex runner."""

import pytest

from evalscribe.evidence import locate
from evalscribe.evidence.log import reference_errors
from evalscribe.judging import quotations
from evalscribe.sources.convex_payload import strip_colours
from support.rules_failure import vitest_log
from support.tool_output import evidence

NOTICE = """\
Initial codegen (exit 1):
✖ No CONVEX_DEPLOYMENT set, run `npx convex dev` to configure a Convex project

convex dev:
"""
PROGRESS = """\
Saved CONVEX_URL and CONVEX_SITE_URL to .env.local
▌ Developing against deployment:
▌ └─ http://localhost:41833
- Preparing Convex functions...

"""
REFUSED = """\
✖ Error: Unable to start push to http://localhost:41833
✖ Error fetching POST  http://localhost:41833/api/deploy2/start_push 400 Bad Request: """
DEPLOYS = [
    pytest.param(
        REFUSED + "InvalidModules: Hit an error while pushing:\nLoading the pushed modules encountered the following\n"
        "    error:\nFailed to analyze app.js: Uncaught Error: Cron job name must be unique: daily\n"
        "    at cron (../node_modules/convex/src/server/cron.ts:390:10)\n    at <anonymous> (../src/app.ts:12:3)\n",
        "Failed to analyze app.js: Uncaught Error: Cron job name must be unique: daily",
        12,
        id="module analysis",
    ),
    pytest.param(
        REFUSED + "InvalidSchema: Hit an error while pushing:\nHit an error while evaluating your schema:\n"
        "Uncaught Error: v.literal(value) must be a string\n    at new VLiteral (../node_modules/v.ts:449:12)\n"
        "    at <anonymous> (../src/app.ts:29:8)\n",
        "v.literal(value) must be a string",
        29,
        id="schema",
    ),
    pytest.param(
        REFUSED + "InvalidModules: Hit an error while pushing:\nLoading the pushed modules encountered the following\n"
        "    error:\nCouldn't find default export in module `http.js`\n",
        "Couldn't find default export in module `http.js`",
        None,
        id="no stack",
    ),
    pytest.param(
        REFUSED + "InvalidSchema: Duplicate index name by_user in table posts\n",
        "InvalidSchema: Duplicate index name by_user in table posts",
        None,
        id="on one line",
    ),
    pytest.param('✘ [ERROR] Could not resolve "x"\n\n    src/app.ts:1:22:\n', 'Could not resolve "x"', 1, id="bundler"),
    pytest.param(
        "Retrying request (attempt 3/6)...\n✖ TypeError: fetch failed\n", "TypeError: fetch failed", None, id="backend"
    ),
]


def deployed(said: str) -> str:
    """Return a log with both copies of a deploy error, as the runner writes them."""
    error = f"Error: Failed to deploy:\n{NOTICE}{PROGRESS}{said}"
    return (
        "[cmd] bun install\n[ok] install\n"
        f"[error] Deploying generated backend on port 41833: {error}[error] deploy: {error}"
    )


@pytest.mark.parametrize(("said", "error", "line"), DEPLOYS)
def test_error_of_a_failed_deploy_is_located_once(said: str, error: str, line: int | None) -> None:
    log_evidence = evidence(deployed(said), "deploy")
    located = locate.locate_all(log_evidence)
    assert [one.error for one in located] == [error]
    assert located[0].citation
    assert quotations.verify_citation(located[0].citation, log_evidence).status == "verified"
    assert [place.line for place in located[0].places] == ([line] if line else [])


@pytest.mark.parametrize(("said", "error", "line"), DEPLOYS)
def test_recorded_reason_of_a_deploy_gives_the_same_error(said: str, error: str, line: int | None) -> None:
    reason = f"Error: Failed to deploy:\n{NOTICE}{PROGRESS}{said}"
    located = locate.locate(evidence(None, "deploy", reason=reason))
    assert located is not None
    assert (located.error, located.citation) == (error, None)


def test_a_deploy_without_output_has_no_reason() -> None:
    assert locate.locate(evidence(deployed("(no output)\n"), "deploy")) is None


def test_typecheck_error_of_a_deploy_is_located_with_and_without_colours() -> None:
    tsc = "\x1b[96msrc/app.ts\x1b[0m:\x1b[93m34\x1b[0m:16 - \x1b[91merror\x1b[0m\x1b[90m TS2339: \x1b[0mNo 'x'.\n\n"
    reason = f"Error: Failed to deploy:\n{NOTICE}{tsc}{PROGRESS}✖ TypeScript typecheck via `tsc` failed.\n"
    coloured = locate.locate(evidence(None, "deploy", reason=reason))
    plain = locate.locate(evidence(None, "deploy", reason=strip_colours(reason)))
    assert coloured is not None
    assert coloured.error == "TS2339: No 'x'."
    assert coloured == plain


@pytest.mark.parametrize("step", ["install", "tsc", "eslint", "tests"])
def test_heading_that_states_the_reason_is_the_error(step: str) -> None:
    log = (
        "[cmd] bunx convex codegen --typecheck disable --init (exit 1)\n"
        "[deploy] ✖ No CONVEX_DEPLOYMENT set, run `npx convex dev` to configure a Convex project\n[ok] deploy\n"
        f"[error] The step ({step}): Error: {step} (/tmp/x) timed out after 120s\n"
        f"[error] {step}: Error: {step} (/tmp/x) timed out after 120s\n"
    )
    located = locate.locate(evidence(log, step))
    assert located is not None
    assert located.error == f"{step} (/tmp/x) timed out after 120s"


def test_recorded_reason_is_used_if_the_log_lacks_the_failed_step() -> None:
    log = "[ok] tsc\n[error] Linting (eslint): Error: Failed to lint code:\n/x/src/app.ts\n  1:1  error  old  no-x\n"
    log_evidence = evidence(
        log, "tsc", reason="Error: Failed to typecheck code:\nsrc/app.ts(3,14): error TS7022: No type."
    )
    located = locate.locate(log_evidence)
    assert located is not None
    assert (located.code, located.citation) == ("TS7022", None)


def test_error_of_the_reference_is_not_that_of_the_failed_step() -> None:
    log = "[error] deploy: Error: Failed to deploy:\n✘ [ERROR] Bad thing\n[error] (answer) convex dev: Error: no\n"
    located = locate.locate(evidence(log, "deploy"))
    assert located is not None
    assert located.error == "Bad thing"
    assert [line.number for line in reference_errors(evidence(log, "deploy"))] == [3]


def test_vitest_without_messages_lists_the_failed_tests() -> None:
    log = vitest_log("rejects empty input", "counts rows", passed=["works"], took=5012)
    outcome = locate.tests(evidence(log, "tests"))
    assert (outcome.passed, outcome.failed, outcome.silent, outcome.never_ran) == (1, 2, True, False)
    assert [test.milliseconds for test in outcome.failures] == [5012, 5012]
    located = locate.locate_all(evidence(log, "tests"))
    assert [one.error for one in located] == ["failed tests: rejects empty input; counts rows"]
    other = locate.locate(evidence(vitest_log("works", passed=["counts rows"]), "tests"))
    assert locate.signature("tests", located[0]) != locate.signature("tests", other)


def test_output_of_the_code_is_not_the_error_of_a_silent_test() -> None:
    printed = (
        "[vitest] stdout | grader.test.ts > works\n[vitest] [CONVEX Q(index:get)] [ERROR] TypeError: boom\n[vitest] "
    )
    located = locate.locate(evidence(vitest_log("works", more=printed), "tests"))
    assert located is not None
    assert located.error == "failed tests: works"


def test_nested_tests_are_failed_tests() -> None:
    log = vitest_log("works").replace("   × works", "     × works")
    assert [test.name for test in locate.tests(evidence(log, "tests")).failures] == ["works"]


@pytest.mark.parametrize(
    ("file", "counts", "error"),
    [
        ("(0 test)", "no tests", "the test file did not load: no test ran"),
        ("(2 tests | 2 skipped) 41ms", "2 skipped (2)", "a hook failed: all 2 tests were skipped"),
    ],
)
def test_error_says_that_the_tests_of_a_file_never_ran(file: str, counts: str, error: str) -> None:
    log = (
        "[error] vitest: Error: Tests failed (ratio: 0)\n[cmd] bunx vitest run\n[vitest]  RUN  v4.0.18 /x\n"
        f"[vitest]  ❯ grader.test.ts {file}\n[vitest]  Test Files  1 failed (1)\n[vitest]       Tests  {counts}\n"
    )
    located = locate.locate(evidence(log, "tests"))
    assert located is not None
    assert located.error == error
