"""Build small failures for the rules judge in a source's form: task, answer, output, grader, notes and log."""

from collections.abc import Iterable, Sequence

from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import Document, Evidence, PackedEvidence, Role
from evalscribe.model.finding import CrossModelFailures, Failure, Precedent, Verdict
from evalscribe.model.run import Eval, Step

STEPS = ("files", "install", "lint", "types", "tests")
HEADER = "=== Eval: basics/001-made ===\n"


def make_failure(
    step: str | None = "tests",
    *,
    log: str = "",
    output: dict[str, str] | None = None,
    expected: dict[str, str] | None = None,
    grader: dict[str, str] | None = None,
    task: str = "Write it.",
    gaps: str | None = None,
    reason: str | None = None,
    error: str | None = None,
    names: Sequence[str] = STEPS,
    precedents: Sequence[Precedent] = (),
    across: CrossModelFailures | None = None,
) -> Failure:
    """Build a failed eval in which every step except `step` passed. If `step` is None, it failed before grading.

    `error` is the error that the source recorded for the failed step. `names` are the names of all steps.
    """
    found = [
        *_documents("task", {"TASK.txt": task}),
        *_documents("output", output or {}),
        *_documents("expected", expected or {}),
        *_documents("grader", grader or {}),
        *_documents("known_gaps", {} if gaps is None else {"GAPS.txt": gaps}),
        *_documents("log", {"run.log": HEADER + log} if log else {}),
    ]
    steps = tuple(
        Step(name=name, status="failed", error=error) if name == step else Step(name=name, status="passed")
        for name in names
        if step
    )
    failed = Eval(id="e1", category="basics", name="001-made", failed_step=step, reason=reason)
    evidence = Evidence(eval=failed, steps=steps, documents=tuple(found))
    return Failure(evidence=evidence, packed=PackedEvidence(excerpts=()), precedents=tuple(precedents), across=across)


def decide(case: Failure) -> Verdict:
    return RulesJudge().decide(case)


def pytest_log(*failures: tuple[str, str], passed: int = 0) -> str:
    """Return pytest's output about failed tests. Each failure has its name and the line after `E`."""
    bodies = [
        f"{'_' * 30} {name} {'_' * 30}\n\n    def {name}():\n>       check()\nE       {said}\n\ntest_grader.py:9: Error"
        for name, said in failures
    ]
    return "\n".join(
        [
            "[cmd] pytest test_grader.py",
            f"{'=' * 40} FAILURES {'=' * 40}",
            *bodies,
            f"{'=' * 30} short test summary info {'=' * 30}",
            *(f"FAILED test_grader.py::{name} - {said}" for name, said in failures),
            f"{len(failures)} failed, {passed} passed in 0.12s",
            "[error] tests: pytest failed",
        ]
    )


def vitest_log(*failed: str, passed: Sequence[str] = (), took: int = 2, more: str = "") -> str:
    """Return the standard output of vitest 4 with the names and times of tests, but without messages."""
    summary = [f"{len(failed)} failed"] * bool(failed) + [f"{len(passed)} passed"] * bool(passed)
    return "\n".join(
        [
            "[error] vitest: Error: Tests failed (ratio: 0)",
            "[cmd] bunx vitest run grader.test.ts --reporter=json --reporter=default",
            "[vitest] ",
            "[vitest]  RUN  v4.0.18 /home/someone/evals",
            "[vitest] ",
            *more.splitlines(),
            f"[vitest]  ❯ grader.test.ts ({len(failed) + len(passed)} tests | {len(failed)} failed) 37ms",
            *(f"[vitest]    × {name} {took}ms" for name in failed),
            *(f"[vitest]    ✓ {name} 0ms" for name in passed),
            "[vitest] ",
            "[vitest]  Test Files  1 failed (1)",
            f"[vitest]       Tests  {' | '.join(summary) or 'no tests'} ({len(failed) + len(passed)})",
            "[vitest]    Start at  06:42:48",
            "[vitest]    Duration  2.56s (transform 400ms, setup 0ms, import 1.95s, tests 37ms, environment 0ms)",
            "[vitest] ",
            "[vitest] JSON report written to /tmp/vitest-1.json",
        ]
    )


def lint_log(*errors: str, passed: int = 8, failed: int = 0) -> str:
    """Return Ruff's output, followed by the output of a test step that passed or failed."""
    end = f"{failed} failed, {passed} passed in 0.12s" if failed else f"{passed} passed in 0.12s"
    return "\n".join(
        [
            "[cmd] ruff check loop.py",
            *errors,
            f"Found {len(errors)} error.",
            "[error] lint: ruff failed",
            "[cmd] pytest test_grader.py",
            "........  [100%]",
            end,
            "[ok] tests",
        ]
    )


def _documents(role: Role, files: dict[str, str]) -> Iterable[Document]:
    return (Document(role=role, path=path, text=text) for path, text in files.items())
