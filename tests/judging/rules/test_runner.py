"""Evals that the runner ended: marks, time limits, the reference answer, and a test runner that never started."""

import pytest

from evalscribe.judging.rules.infrastructure import came_to_the_code
from support.rules_failure import decide, make_failure, vitest_log

CODE = {"convex/index.ts": "export const a = query({});\n"}
STEPS = ("filesystem", "install", "deploy", "tsc", "eslint", "tests")


@pytest.mark.parametrize(
    ("reason", "uncertain"),
    [
        ("[infrastructure] empty provider response", True),
        ("[infrastructure] backend health check failed", False),
        ("[rate_limit] error: AI_RetryError: Too Many Requests", False),
        ("[preflight] Error: 404 Not Found: No endpoints found", False),
        ("[zero_tokens] Zero total token usage", False),
    ],
)
def test_runner_mark_is_an_outage(reason: str, uncertain: bool) -> None:
    case = make_failure("filesystem", names=("filesystem",), error=reason, reason=reason)
    verdict = decide(case)
    assert (verdict.classification, verdict.cause_kind) == ("KNOWN_GAP", "infrastructure")
    assert verdict.uncertain is uncertain
    assert not came_to_the_code(case.evidence)


def test_runner_mark_in_a_test_message_is_no_outage() -> None:
    reason = "[infrastructure] backend health check failed"
    verdict = decide(make_failure("tests", error=reason, reason=reason, output=CODE))
    assert verdict.cause_kind == "model"


def test_answer_without_files_is_a_model_fault() -> None:
    reason = "empty parsed model output: non-empty raw response (116 chars) did not contain parseable files"
    raw = {"raw_model_response.md": "\nHere is how you could write it: use a query.\n"}
    verdict = decide(make_failure("filesystem", names=("filesystem",), error=reason, reason=reason, output=raw))
    assert (verdict.classification, verdict.cause, verdict.uncertain) == ("MODEL_FAULT", "answer-without-files", False)
    assert verdict.citations[0].text.startswith("Here is how")


def test_a_refusal_in_place_of_files_is_uncertain() -> None:
    reason = "empty parsed model output: non-empty raw response (40 chars) did not contain parseable files"
    raw = {"raw_model_response.md": "I’m sorry, but I can’t help with that."}
    verdict = decide(make_failure("filesystem", names=("filesystem",), error=reason, reason=reason, output=raw))
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", True)


@pytest.mark.parametrize(
    ("reason", "uncertain"),
    [
        ("empty parsed model output: non-empty raw response (40 chars) did not contain parseable files", True),
        ("Error: Invalid filesystem output: ../../etc/x is outside the project", False),
    ],
)
def test_unstored_answer_is_uncertain_if_it_may_be_a_refusal(reason: str, uncertain: bool) -> None:
    verdict = decide(make_failure("filesystem", names=("filesystem",), error=reason, reason=reason))
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", uncertain)


def test_provider_error_without_stored_output_is_an_outage() -> None:
    reason = "error: AI_NoOutputGeneratedError: No output generated. Check the stream for errors."
    verdict = decide(make_failure(None, reason=reason))
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("KNOWN_GAP", "infrastructure", False)
    assert "not stored" in verdict.reasoning


@pytest.mark.parametrize(
    ("step", "error", "label", "uncertain"),
    [
        ("install", "Error: bun install timed out after 120s", "KNOWN_GAP", False),
        ("deploy", "Error: convex codegen timed out after 60s", "KNOWN_GAP", False),
        ("deploy", "Error: convex dev timed out after 90s", "KNOWN_GAP", False),
        ("tsc", "Error: tsc (/tmp/x/convex/tsconfig.json) timed out after 120s", "KNOWN_GAP", True),
        ("eslint", "Error: eslint (convex) timed out after 120s", "KNOWN_GAP", False),
        ("tests", "Error: vitest timed out after 300s", "MODEL_FAULT", True),
    ],
)
def test_runner_time_limit_has_the_expected_label_and_certainty(
    step: str, error: str, label: str, uncertain: bool
) -> None:
    log = (
        "[cmd] bunx convex codegen --typecheck disable --init (exit 1)\n"
        "[deploy] ✖ No CONVEX_DEPLOYMENT set, run `npx convex dev` to configure a Convex project\n"
        f"[error] {step}: {error}\n"
    )
    verdict = decide(make_failure(step, names=STEPS, log=log, error=error, reason=error, output=CODE))
    assert (verdict.classification, verdict.uncertain) == (label, uncertain)
    assert verdict.rule == "runner-ran-out-of-time"
    assert "timed out after" in verdict.error
    assert verdict.error.endswith("s")


def test_time_limit_mentioned_by_the_code_is_not_the_runners() -> None:
    error = "Error: Failed to deploy:\nconvex dev:\n✖ Uncaught Error: convex dev timed out after 90s\n"
    log = f"[error] deploy: {error}"
    verdict = decide(make_failure("deploy", names=STEPS, log=log, error=error, reason=error, output=CODE))
    assert verdict.classification == "MODEL_FAULT"


@pytest.mark.parametrize(
    "heading",
    [
        "[error] (answer) convex dev: Error: Failed to deploy:\n✖ TypeError: fetch failed",
        "[error] (answer) bun install: Error: bun install timed out after 120s",
    ],
)
def test_reference_that_was_not_set_up_is_a_harness_fault(heading: str) -> None:
    log = f"[ok] deploy\n{heading}\n{vitest_log('lists all')}"
    verdict = decide(make_failure(names=STEPS, log=log, output=CODE, error="tests failed (0%)"))
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("OVERLY_STRICT", "harness", False)
    assert verdict.rule == "reference-not-set-up"
    assert "(answer)" in verdict.citations[0].text


def test_line_printed_by_a_test_does_not_blame_the_reference() -> None:
    printed = "[vitest] stdout | grader.test.ts > lists all\n[vitest] [error] (answer) convex dev: Error: no\n[vitest] "
    verdict = decide(make_failure(names=STEPS, log=vitest_log("lists all", more=printed), output=CODE))
    assert verdict.rule != "reference-not-set-up"


def test_silent_test_runner_is_a_harness_fault() -> None:
    log = "[ok] eslint\n[error] vitest: Error: Tests failed:\n"
    verdict = decide(make_failure(names=STEPS, log=log, output=CODE, error="Error: Tests failed:\n"))
    assert (verdict.classification, verdict.cause_kind) == ("OVERLY_STRICT", "harness")
    assert verdict.error == "the test runner did not start: it printed nothing"


def test_step_that_failed_without_output_is_not_one_that_never_started() -> None:
    log = "[ok] eslint\n[error] the step failed\n"
    verdict = decide(make_failure(names=STEPS, log=log, output=CODE))
    assert verdict.rule != "tests-never-started"


REGISTRY = """\
[error] install: Error: Failed to install dependencies:
bun install v1.3.8

Resolving dependencies
error: {error}
error: convex@^1.44.0 failed to resolve
"""


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_unavailable_registry_is_an_outage(status: int) -> None:
    log = REGISTRY.format(error=f"GET https://registry.example/convex - {status}")
    verdict = decide(make_failure("install", names=STEPS, log=log, output=CODE))
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("KNOWN_GAP", "infrastructure", False)


@pytest.mark.parametrize(
    "error",
    [
        "GET https://registry.example/@convex-dev%2freact - 404",
        'No version matching "^9" found for specifier "convex" (but package exists)',
    ],
)
def test_missing_package_is_a_model_fault(error: str) -> None:
    verdict = decide(make_failure("install", names=STEPS, log=REGISTRY.format(error=error), output=CODE))
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", False)
    assert "No such package or version" in verdict.reasoning


def test_an_outage_that_an_install_script_could_have_printed_is_uncertain() -> None:
    manifest = {"package.json": '{"scripts": {"postinstall": "node say.js"}}'}
    log = REGISTRY.format(error="GET https://registry.example/convex - 503")
    assert decide(make_failure("install", names=STEPS, log=log, output=CODE | manifest)).uncertain
