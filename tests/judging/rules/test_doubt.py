"""Errors that any model may run into are uncertain without notes or other models' results."""

import pytest

from evalscribe.model.finding import CrossModelFailures, Verdict
from support.rules_failure import decide, lint_log, make_failure

OUTPUT = {"convex/index.ts": "export const a = db.iter(x);\n"}
EXPECTED = {"convex/index.ts": "export const a = db.collect(x);\n"}
PASSING = CrossModelFailures(alike=(), models=5)


def built(error: str, *, gaps: str | None = None, across: CrossModelFailures | None = None) -> Verdict:
    log = f"[error] deploy: Error: Failed to deploy:\n{error}\n"
    return decide(make_failure("deploy", log=log, output=OUTPUT, expected=EXPECTED, gaps=gaps, across=across))


def tsc(code: str, message: str) -> str:
    return f"convex/index.ts:1:18 - error {code}: {message}"


SHARED = [
    tsc("TS2345", "Argument of type 'string' is not assignable to parameter of type 'Id'."),
    tsc("TS7022", "'a' implicitly has type 'any'."),
    tsc("TS2580", "Cannot find name 'process'."),
    tsc("TS2339", "Property 'index' does not exist on type '{}'."),
    tsc("TS2339", "Property 'collect' does not exist on type 'Writer'."),
    '✘ [ERROR] Could not resolve "crypto"\n\n    convex/index.ts:1:18:',
    tsc("TS2344", "Type 'string' does not satisfy the constraint 'TableNames'."),
    tsc("TS2577", "Return type annotation circularly references itself."),
    tsc("TS2589", "Type instantiation is excessively deep and possibly infinite."),
    tsc("TS18046", "'row' is of type 'unknown'."),
    tsc("TS2304", "Cannot find name 'process'."),
    tsc("TS2503", "Cannot find namespace 'NodeJS'."),
    tsc("TS2550", "Property 'at' does not exist on type 'x'. Do you need to change your target library?"),
    tsc("TS2353", "Object literal may only specify known properties, and 'collect' does not exist in type 'X'."),
    tsc("TS6133", "'a' is declared but its value is never read."),
]
OWN = [
    tsc("TS2339", "Property 'iter' does not exist on type 'Query'."),
    tsc("TS2353", "Object literal may only specify known properties, and 'iter' does not exist in type 'X'."),
    tsc("TS2304", "Cannot find name 'helper'."),
    tsc("TS2554", "Expected 4 arguments, but got 3."),
    tsc("TS1005", "';' expected."),
    '✘ [ERROR] Could not resolve "../helpers"\n\n    convex/index.ts:1:18:',
    '✘ [ERROR] Could not resolve "left-pad"\n\n    convex/index.ts:1:18:',
    '✘ [ERROR] Expected ";" but found ")"\n\n    convex/index.ts:1:18:',
]


@pytest.mark.parametrize("error", SHARED)
def test_errors_about_platform_types_are_uncertain(error: str) -> None:
    verdict = built(error)
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", True)
    assert "neither known-gap notes nor other models" in verdict.reasoning


@pytest.mark.parametrize("error", OWN)
def test_mistakes_in_the_models_own_code_are_certain(error: str) -> None:
    verdict = built(error)
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", False)


@pytest.mark.parametrize("error", SHARED)
def test_notes_about_other_gaps_make_a_platform_error_certain(error: str) -> None:
    assert not built(error, gaps="- Models write `v.any()`.").uncertain


@pytest.mark.parametrize("error", SHARED)
def test_passing_models_make_a_platform_error_certain(error: str) -> None:
    assert not built(error, across=PASSING).uncertain


def test_type_lint_rule_is_uncertain_if_all_tests_pass_unless_asked_for() -> None:
    log = (
        "[error] eslint: Error: Failed to lint code:\n/x/convex/index.ts\n  1:18  error  Unsafe call  no-unsafe-call\n"
    )
    passing = (
        log + "[vitest]  RUN  v4.0.18 /x\n[vitest]  Test Files  1 passed (1)\n[vitest]       Tests  2 passed (2)\n"
    )
    steps = ("install", "eslint", "tests")
    verdict = decide(make_failure("eslint", names=steps, log=passing, output=OUTPUT, expected=EXPECTED))
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", True)
    noted = decide(make_failure("eslint", names=steps, log=passing, output=OUTPUT, expected=EXPECTED, gaps="- `x`"))
    assert noted.uncertain
    task = "Keep it type-safe."
    type_safe_case = make_failure(
        "eslint", names=steps, log=passing, output=OUTPUT, expected=EXPECTED, gaps="- `x`", task=task
    )
    assert not decide(type_safe_case).uncertain


def test_lint_rule_about_a_real_defect_stays_certain() -> None:
    log = (
        "[error] eslint: Error: Failed to lint code:\n/x/convex/index.ts\n  1:18  error  Not reached  no-unreachable\n"
    )
    verdict = decide(make_failure("eslint", names=("eslint", "tests"), log=log, output=OUTPUT, expected=EXPECTED))
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", False)


def test_style_violation_alone_stays_certain() -> None:
    log = lint_log("convex/index.ts:1:1: PLW2901 loop variable overwritten")
    verdict = decide(make_failure("lint", log=log, output=OUTPUT, expected=EXPECTED))
    assert (verdict.classification, verdict.uncertain) == ("OVERLY_STRICT", False)


REFUSED = "✖ Error fetching POST  http://x:1/start_push 400 Bad Request: InvalidModules: Hit an error:\n"
STACK = "    at <anonymous> (../convex/index.ts:1:3)"
ALIKE = [
    tsc("TS2554", "Expected 4 arguments, but got 3."),
    tsc("TS1005", "';' expected."),
    f"{REFUSED}Failed to analyze index.js: Uncaught Error: Cron job name must be unique: daily\n{STACK}",
    '✘ [ERROR] Expected ";" but found ")"\n\n    convex/index.ts:1:18:',
]


@pytest.mark.parametrize("error", ALIKE)
@pytest.mark.parametrize("gaps", [None, "- Models write `v.any()`."])
def test_error_is_uncertain_if_the_code_equals_the_reference(error: str, gaps: str | None) -> None:
    log = f"[error] deploy: Error: Failed to deploy:\n{error}\n"
    verdict = decide(make_failure("deploy", log=log, output=EXPECTED, expected=EXPECTED, gaps=gaps))
    assert verdict.uncertain
    assert "would fail alike" in verdict.reasoning


def test_error_at_a_statement_shared_with_the_reference_is_uncertain() -> None:
    shared = "export const b = db.put(\n  x,\n  1,\n);\n"
    output = {"convex/index.ts": shared + OUTPUT["convex/index.ts"]}
    expected = {"convex/index.ts": shared + EXPECTED["convex/index.ts"]}
    log = "[error] deploy: Error: Failed to deploy:\n" + tsc("TS2554", "Expected 4 arguments, but got 3.") + "\n"
    assert decide(make_failure("deploy", log=log, output=output, expected=expected)).uncertain
    own = {"convex/index.ts": output["convex/index.ts"].replace("  1,", "  2,")}
    assert not decide(make_failure("deploy", log=log, output=own, expected=expected)).uncertain


@pytest.mark.parametrize(
    "error",
    [
        "node_modules/lib/index.d.ts:4:3 - error TS2304: Cannot find name 'Foo'.",
        "tsconfig.json:3:5 - error TS5107: Option 'moduleResolution=node10' is deprecated.",
        "error TS18003: No inputs were found in config file '/x/tsconfig.json'.",
    ],
)
def test_error_outside_the_models_code_is_uncertain(error: str) -> None:
    log = f"[error] deploy: Error: Failed to deploy:\n{error}\n"
    output = OUTPUT | {"tsconfig.json": "{\n\n  1\n}\n"}
    assert decide(make_failure("deploy", log=log, output=output, expected=EXPECTED)).uncertain


def installed(error: str, *, version: str = "^9") -> Verdict:
    log = f"[error] install: Error: Failed to install dependencies:\nbun install v1.3.8\n{error}\n"
    output = OUTPUT | {"package.json": '{\n  "dependencies": {\n    "acme": "^9"\n  }\n}\n'}
    expected = EXPECTED | {"package.json": output["package.json"].replace("^9", version)}
    return decide(make_failure("install", log=log, output=output, expected=expected))


@pytest.mark.parametrize(
    "error",
    [
        "error: ENOSPC: no space left on device",
        "error: GET https://registry.example/acme - 401",
        "error: IntegrityCheckFailed extracting tarball for acme",
        'error: postinstall script from "acme" exited with 1',
    ],
)
def test_installer_failure_of_its_own_is_uncertain(error: str) -> None:
    assert installed(error, version="^1").uncertain


@pytest.mark.parametrize(
    "error",
    [
        "error: GET https://registry.example/acme - 404\nerror: acme@^9 failed to resolve",
        'error: No version matching "^9" found for specifier "acme" (but package exists)',
    ],
)
def test_nonexistent_package_is_a_certain_fault_unless_the_reference_uses_it(error: str) -> None:
    own, shared = installed(error, version="^1"), installed(error)
    assert (own.classification, own.uncertain) == ("MODEL_FAULT", False)
    assert shared.uncertain
    assert "asks for the same package" in shared.reasoning


def linted(error: str, *, output: dict[str, str] = OUTPUT) -> Verdict:
    log = f"[error] eslint: Error: Failed to lint code:\n{error}\n"
    return decide(make_failure("eslint", names=("install", "eslint"), log=log, output=output, expected=EXPECTED))


def test_linter_configuration_error_is_uncertain() -> None:
    assert linted("Oops! Something went wrong! :(\n\nESLint couldn't find an eslint.config.js file.").uncertain
    unread = 'Parsing error: "parserOptions.project" has been provided and the file was not found'
    assert linted(f"/x/convex/index.ts\n  1:1  error  {unread}").uncertain
    assert not linted("/x/convex/index.ts\n  1:1  error  Parsing error: ';' expected").uncertain


def test_violation_on_a_line_shared_with_the_reference_is_uncertain() -> None:
    error = "/x/convex/index.ts\n  1:1  error  Unreachable code  no-unreachable"
    assert not linted(error).uncertain
    assert linted(error, output={"convex/index.ts": EXPECTED["convex/index.ts"] + "const own = 1;\n"}).uncertain


def test_warnings_alone_are_quoted_and_uncertain() -> None:
    verdict = linted("/x/convex/index.ts\n  1:3  warning  'x' is defined but never used  no-unused-vars\n\n✖ 1 problem")
    assert "'x' is defined" in verdict.error
    assert verdict.uncertain


def test_unknown_name_is_uncertain_if_the_build_prints_nothing() -> None:
    log = "[error] deploy: Error: Failed to deploy:\n(no output)\n"
    verdict = decide(make_failure("deploy", log=log, output=OUTPUT, expected=EXPECTED))
    assert (verdict.rule, verdict.uncertain) == ("uses-unknown-name", True)
    noted = decide(make_failure("deploy", log=log, output=OUTPUT, expected=EXPECTED, gaps="- Models write `v.any()`."))
    assert not noted.uncertain
