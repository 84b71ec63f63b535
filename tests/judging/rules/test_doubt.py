"""Errors that any model may run into are uncertain without notes or other models' results."""

import pytest

from evalscribe.finding import Across, Verdict
from rules_case import decide, lint_log, made

OUTPUT = {"convex/index.ts": "export const a = db.iter(x);\n"}
EXPECTED = {"convex/index.ts": "export const a = db.collect(x);\n"}
PASSING = Across(alike=(), models=5)


def built(error: str, *, gaps: str | None = None, across: Across | None = None) -> Verdict:
    log = f"[error] deploy: Error: Failed to deploy:\n{error}\n"
    return decide(made("deploy", log=log, output=OUTPUT, expected=EXPECTED, gaps=gaps, across=across))


def tsc(code: str, message: str) -> str:
    return f"convex/index.ts:1:18 - error {code}: {message}"


SHARED = [
    tsc("TS2345", "Argument of type 'string' is not assignable to parameter of type 'Id'."),
    tsc("TS7022", "'a' implicitly has type 'any'."),
    tsc("TS2580", "Cannot find name 'process'."),
    tsc("TS2339", "Property 'index' does not exist on type '{}'."),
    tsc("TS2339", "Property 'collect' does not exist on type 'Writer'."),
    '✘ [ERROR] Could not resolve "crypto"\n\n    convex/index.ts:1:18:',
]
OWN = [
    tsc("TS2339", "Property 'iter' does not exist on type 'Query'."),
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
def test_the_models_own_mistakes_are_certain(error: str) -> None:
    verdict = built(error)
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", False)


@pytest.mark.parametrize("error", SHARED)
def test_notes_about_other_gaps_make_it_certain(error: str) -> None:
    assert not built(error, gaps="- Models write `v.any()`.").uncertain


@pytest.mark.parametrize("error", SHARED)
def test_other_models_that_pass_make_it_certain(error: str) -> None:
    assert not built(error, across=PASSING).uncertain


def test_a_rule_about_types_is_uncertain_where_all_tests_pass() -> None:
    log = (
        "[error] eslint: Error: Failed to lint code:\n/x/convex/index.ts\n  1:18  error  Unsafe call  no-unsafe-call\n"
    )
    passing = (
        log + "[vitest]  RUN  v4.0.18 /x\n[vitest]  Test Files  1 passed (1)\n[vitest]       Tests  2 passed (2)\n"
    )
    steps = ("install", "eslint", "tests")
    verdict = decide(made("eslint", names=steps, log=passing, output=OUTPUT, expected=EXPECTED))
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", True)
    noted = decide(made("eslint", names=steps, log=passing, output=OUTPUT, expected=EXPECTED, gaps="- `x`"))
    assert not noted.uncertain


def test_a_rule_about_the_models_own_code_stays_certain() -> None:
    log = "[error] eslint: Error: Failed to lint code:\n/x/convex/index.ts\n  1:18  error  Not used  no-unused-vars\n"
    verdict = decide(made("eslint", names=("eslint", "tests"), log=log, output=OUTPUT, expected=EXPECTED))
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", False)


def test_style_alone_stays_certain() -> None:
    log = lint_log("convex/index.ts:1:1: PLW2901 loop variable overwritten")
    verdict = decide(made("lint", log=log, output=OUTPUT, expected=EXPECTED))
    assert (verdict.classification, verdict.uncertain) == ("OVERLY_STRICT", False)
