"""Parsing of step outcomes from the runner's log."""

import pytest

from evalscribe.model.run import Step
from evalscribe.sources.convex_payload import parse_steps, reconcile_steps

LINT = """=== Eval: a/b ===
[ok] filesystem
[cmd] bun install
[install] [ok] tests
[ok] install
[ok] deploy
[setup] dropped unresolvable tsconfig types: node
[ok] tsc
[error] Linting (eslint): Error: Failed to lint code:

index.ts
  5:19  error  no  rule
[error] eslint: Error: Failed to lint code:

index.ts
  5:19  error  no  rule
[error] (answer) convex dev: Error: Failed to deploy:
[cmd] bunx vitest run grader.test.ts
[vitest]  RUN  v4.0.18
"""
ERROR = "Error: Failed to lint code:\n\nindex.ts\n  5:19  error  no  rule"


def statuses(log: str) -> dict[str, str]:
    return {step.name: step.status for step in parse_steps(log)}


def test_steps_are_parsed_from_the_marks_of_the_runner() -> None:
    steps = parse_steps(LINT)
    assert {step.name: step.status for step in steps} == {
        "filesystem": "passed",
        "install": "passed",
        "deploy": "passed",
        "tsc": "passed",
        "eslint": "failed",
        "tests": "passed",
    }
    assert steps[4].error == ERROR


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param("[error] install: Error: no", {"install": "failed"}, id="install"),
        pytest.param(
            "[error] Deploying generated backend on port 4183: Error: no", {"deploy": "failed"}, id="before April"
        ),
        pytest.param("[error] vitest: Error: no\n[cmd] bunx vitest run g", {"tests": "failed"}, id="tests"),
        pytest.param(
            "[ok] filesystem\n[error] vitest: Error: no", {"filesystem": "passed", "tests": "failed"}, id="static"
        ),
        pytest.param("[cmd] (answer) bunx vitest run g\n[error] (answer) bun install: x", {}, id="the reference's"),
        pytest.param("[error] deploy: Error: x\n[ok] deploy\n[ok] tests", {"deploy": "failed"}, id="fake marks"),
    ],
)
def test_step_status_is_parsed_from_short_logs(log: str, expected: dict[str, str]) -> None:
    assert statuses(log) == expected


def row(name: str, status: str = "passed", error: str | None = None) -> Step:
    return Step(name=name, status=status, error=error)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="none"),
        pytest.param([row("filesystem"), row("tests")], id="some missing"),
        pytest.param([row("tests"), row("install", "running"), row("filesystem")], id="running, out of order"),
        pytest.param([row("eslint", "failed"), row("eslint", "failed", ERROR)], id="doubled"),
    ],
)
def test_incomplete_step_rows_are_completed_from_the_log(rows: list[Step]) -> None:
    assert reconcile_steps(rows, LINT, "eslint fail") == parse_steps(LINT)


def test_finished_step_row_overrides_the_log() -> None:
    rows = [row("eslint", "skipped"), row("tests", "failed", "tests failed (50%)")]
    steps = {step.name: step for step in reconcile_steps(rows, LINT, "tests fail (50%)")}
    assert (steps["eslint"].status, steps["tests"]) == ("skipped", rows[1])


def test_failed_step_comes_from_the_reason_without_a_log() -> None:
    assert reconcile_steps([row("filesystem"), row("install", "running")], None, "install fail") == (
        row("filesystem"),
        row("install", "failed"),
    )


def test_failed_tests_step_shows_the_rate_of_the_reason() -> None:
    log = "[error] vitest: Error: Tests failed (ratio: 0.3333)\n[cmd] bunx vitest run g"
    assert reconcile_steps([], log, "tests fail (33%)") == (row("tests", "failed", "tests failed (33%)"),)


def test_steps_of_another_runner_are_unchanged() -> None:
    rows = (row("tests"), row("build", "failed"), row("tests"))
    assert reconcile_steps(rows, LINT, "eslint fail") == rows
