"""Rules about linters: style, violations of the reference itself, and real defects."""

import pytest

from evalscribe.model.finding import Failure
from support.rules_failure import decide, lint_log, make_failure

STYLE = "loop.py:2:5: PLW2901 `for` loop variable `line` overwritten by assignment target"
UNDEFINED = "loop.py:2:5: F821 Undefined name `lines`"
OUTPUT = "for line in text:\n    line = line.strip()\n"
EXPECTED = "for raw in text:\n    line = raw.strip()\n"


def lint(log: str, output: str = OUTPUT, expected: str = EXPECTED) -> Failure:
    return make_failure("lint", log=log, output={"loop.py": output}, expected={"loop.py": expected})


def eslint(rule: str, failed: bool = False) -> Failure:
    tests = " Tests  1 failed | 3 passed (4)" if failed else " Tests  4 passed (4)"
    log = (
        "[error] Linting (eslint): Error: Failed to lint code:\n\n/tmp/out/src/app.ts\n"
        f"  2:3  error  Something is said here  {rule}\n\n✖ 1 problem (1 error, 0 warnings)\n"
        f"[cmd] bunx vitest run grader.test.ts\n[vitest]  RUN  v3.0.4 /x\n[vitest] {tests}"
    )
    code = "const a = 1;\nlet firstValue = compute(a);\n"
    case = make_failure(
        "lint", log=log, output={"src/app.ts": code}, expected={"src/app.ts": "const a = 1;\nrun(a);\n"}
    )
    if not failed:
        return case
    steps = tuple(s.model_copy(update={"status": "failed"}) if s.name == "tests" else s for s in case.evidence.steps)
    return case.model_copy(update={"evidence": case.evidence.model_copy(update={"steps": steps})})


def test_style_violation_is_overly_strict_if_all_tests_pass() -> None:
    verdict = decide(lint(lint_log(STYLE)))
    assert (verdict.classification, verdict.cause_kind, verdict.would_pass) == ("OVERLY_STRICT", "lint", True)
    assert verdict.cause == "plw2901"
    assert verdict.fix == "make `PLW2901` a warning"
    assert verdict.why == "all 8 tests pass; only `PLW2901` (style) fails"
    assert ("output", 2) in {(c.role, c.first) for c in verdict.citations}


@pytest.mark.parametrize(
    "rule",
    [
        "prefer-const",
        "@typescript-eslint/promise-function-async",
        "require-await",
        "@typescript-eslint/explicit-function-return-type",
        "quotes",
        "import/order",
        "@typescript-eslint/no-unnecessary-condition",
        "no-unused-vars",
    ],
)
def test_style_rule_is_overly_strict(rule: str) -> None:
    assert decide(eslint(rule)).classification == "OVERLY_STRICT"


@pytest.mark.parametrize(
    "rule",
    [
        "no-undef",
        "@typescript-eslint/no-explicit-any",
        "no-unreachable",
        "@typescript-eslint/no-floating-promises",
        "@typescript-eslint/no-unsafe-argument",
    ],
)
def test_correctness_rule_is_a_model_fault(rule: str) -> None:
    verdict = decide(eslint(rule))
    assert (verdict.classification, verdict.would_pass, verdict.fix) == ("MODEL_FAULT", False, None)


def test_style_violation_is_a_model_fault_if_tests_fail_too() -> None:
    assert decide(eslint("prefer-const", failed=True)).classification == "MODEL_FAULT"


def test_defect_among_style_violations_is_a_model_fault() -> None:
    verdict = decide(lint(lint_log(STYLE, UNDEFINED)))
    assert (verdict.classification, verdict.cause) == ("MODEL_FAULT", "f821")


def test_violation_that_the_reference_shares_is_overly_strict() -> None:
    line = "subprocess.run(command, shell=True)\n"
    same = decide(lint(lint_log("loop.py:1:1: S602 `shell=True` call"), line, line + "done()\n"))
    assert (same.rule, same.classification) == ("reference-would-fail-too", "OVERLY_STRICT")


@pytest.mark.parametrize(
    "reference", ["# noqa: S602\nsubprocess.run(command, shell=True)\n", "subprocess.run(command)\n"]
)
def test_violation_is_uncertain_if_the_reference_is_exempt_or_differs(reference: str) -> None:
    """A rule that is neither style nor a certain defect, and that nobody asked for, is overly strict but uncertain."""
    verdict = decide(
        lint(lint_log("loop.py:1:1: S602 `shell=True` call"), "subprocess.run(command, shell=True)\n", reference)
    )
    assert (verdict.rule, verdict.classification, verdict.uncertain) == ("taste-only", "OVERLY_STRICT", True)


@pytest.mark.parametrize(
    "task", ["Write it; the code passes ruff.", "Call the command without S602.", "End it with `# noqa: S602`."]
)
def test_rule_named_by_the_task_is_a_model_fault(task: str) -> None:
    case = make_failure(
        "lint", log=lint_log("loop.py:1:1: S602 `shell=True` call"), output={"loop.py": OUTPUT}, task=task
    )
    verdict = decide(case)
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", False)
    assert "task asks for" in verdict.reasoning


def test_file_that_the_linter_cannot_parse_is_a_model_fault() -> None:
    log = (
        "[error] Linting (eslint): Error: Failed to lint code:\n\n/tmp/out/src/app.ts\n"
        "  2:3  error  Parsing error: Unexpected token }\n\n✖ 1 problem (1 error, 0 warnings)\n"
    )
    verdict = decide(make_failure("lint", log=log, output={"src/app.ts": "run();\n}\n"}))
    assert (verdict.classification, verdict.cause) == ("MODEL_FAULT", "unparsable-code")
    assert verdict.reasoning.startswith("The linter names no rule; it says of src/app.ts:2: Parsing error")


def test_reasoning_does_not_mention_a_missing_reference() -> None:
    case = make_failure("lint", log=lint_log(UNDEFINED), output={"loop.py": OUTPUT})
    assert decide(case).reasoning == "Breaks `F821`: Undefined name `lines`."


def test_directive_in_the_task_covers_only_the_rules_it_names() -> None:
    task = "Use directives such as\n  // eslint-disable-next-line @typescript-eslint/no-unsafe-return\n"
    case = eslint("prefer-const")
    documents = tuple(d.model_copy(update={"text": task}) if d.role == "task" else d for d in case.evidence.documents)
    case = case.model_copy(update={"evidence": case.evidence.model_copy(update={"documents": documents})})
    assert decide(case).classification == "OVERLY_STRICT"


@pytest.mark.parametrize("styles", [49, 50, 300, 1500])
@pytest.mark.parametrize("gaps", [None, "Linting: models break `PLW2901` in loops."])
def test_many_style_violations_do_not_hide_a_defect(styles: int, gaps: str | None) -> None:
    code = "".join(f"value_{n} = compute({n * 7})\n" for n in range(1, styles + 2))
    lines = [f"loop.py:{n}:5: PLW2901 `for` loop variable overwritten" for n in range(1, styles + 1)]
    log = lint_log(*lines, f"loop.py:{styles + 1}:5: F821 Undefined name `lines`")
    case = make_failure("lint", log=log, output={"loop.py": code}, expected={"loop.py": "y = 1\n"}, gaps=gaps)
    verdict = decide(case)
    if gaps is None:
        assert (verdict.classification, verdict.cause, verdict.uncertain) == ("MODEL_FAULT", "f821", False)
    else:
        assert (verdict.classification, verdict.uncertain) == ("KNOWN_GAP", True)
        assert "F821" in verdict.reasoning


@pytest.mark.parametrize(
    "quoted", ["a  prefer-const\nb", "a  prefer-const\n\nerror: b", "a  prefer-const\n  2:4  error  Use it  quotes\nb"]
)
def test_type_printed_like_a_style_violation_does_not_hide_a_defect(quoted: str) -> None:
    """ESLint prints a template literal type of the output with its line breaks."""
    message = f"Unsafe argument of type `any` assigned to a parameter of type `{quoted}`"
    log = (
        f"[error] Linting (eslint): Error: Failed to lint code:\n\n/tmp/out/src/app.ts\n  2:3  error  {message}"
        "  @typescript-eslint/no-unsafe-argument\n\n✖ 1 problem (1 error, 0 warnings)\n"
        "[cmd] bunx vitest run grader.test.ts\n[vitest]  RUN  v3.0.4 /x\n[vitest]  Tests  4 passed (4)"
    )
    verdict = decide(make_failure("lint", log=log, output={"src/app.ts": "const a = 1;\nrun(a as any);\n"}))
    assert verdict.classification == "MODEL_FAULT"
