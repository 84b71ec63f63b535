"""Step outcomes that the suite's runner wrote into `run.log`.

The runner sends step rows without waiting for answers, so rows can be missing, duplicated, late or out of order. The
log and the eval's own failure reason are reliable. Pure.
"""

import re
from collections.abc import Sequence

from evalscribe.run import Step

STEPS = ("filesystem", "install", "deploy", "tsc", "eslint", "tests")
"""The runner's steps in execution order."""
_STOPPING = ("filesystem", "install", "deploy")
"""Steps whose failure ends the eval."""
_MARK = re.compile(r"\[(?:cmd|ok|error|setup)\](?: |$)")
_OK = re.compile(r"\[ok\] (filesystem|install|deploy|tsc|eslint|tests)\s*")
_ERROR = re.compile(
    r"\[error\] (?P<label>filesystem|install|deploy|tsc|eslint|tests|vitest|Installing dependencies \(bun install\)"
    r"|Deploying generated backend on port \d+|Typechecking \(tsc\)|Linting \(eslint\)): (?P<text>.*)"
)
_TESTS_RAN = re.compile(r"\[cmd\] (?!\(answer\)).*\bvitest run\b")
_LABELS = {
    "vitest": "tests",
    "Installing": "install",
    "Deploying": "deploy",
    "Typechecking": "tsc",
    "Linting": "eslint",
}
_SHORT = re.compile(
    r"(?:(?P<step>filesystem|install|deploy|tsc|eslint|tests)|(?P<dev>convex dev)) fail(?: \((?P<rate>\d+%)\))?"
)
_FILESYSTEM = re.compile(
    r"\[infrastructure\] empty provider response|empty parsed model output\b|Error: Invalid filesystem output\b"
)
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


def step_of(reason: str | None) -> str | None:
    """Return the step named by an eval's failure reason (`convex dev fail` is deploy); None for other reasons."""
    if not reason:
        return None
    if match := _SHORT.fullmatch(reason.strip()):
        return match["step"] or "deploy"
    return "filesystem" if _FILESYSTEM.match(reason) else None


def is_short(reason: str | None) -> bool:
    """Whether a reason only names the step and holds no error."""
    return not reason or _SHORT.fullmatch(reason.strip()) is not None


def without_colours(text: str) -> str:
    """Remove terminal escape codes: the CLI colours a failed typecheck, and step errors are stored with the codes."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def steps_in(log: str) -> tuple[Step, ...]:
    """Return the outcomes of the steps that the log names, in the runner's order.

    Lines about the reference answer, marked `(answer)`, are ignored. A failure wins over a success of the same step,
    and nothing counts after a failure that ends the eval, because the text of an error may contain lines that look like
    marks.
    """
    lines = log.split("\n")
    failed: dict[str, str] = {}
    passed: set[str] = set()
    for at, line in enumerate(lines):
        if match := _ERROR.fullmatch(line.rstrip("\r")):
            label = match["label"]
            step = _LABELS.get(label.partition(" ")[0], label)
            if step not in failed:
                failed[step] = _block(match["text"], lines, at)
        elif match := _OK.fullmatch(line):
            passed.add(match[1])
        elif _TESTS_RAN.match(line):
            passed.add("tests")
    last = next((at for at, name in enumerate(STEPS) if name in failed and name in _STOPPING), len(STEPS))
    return tuple(
        Step(name=name, status="failed" if name in failed else "passed", error=failed.get(name))
        for name in STEPS[: last + 1]
        if name in failed or name in passed
    )


def reconciled(rows: Sequence[Step], log: str | None, reason: str | None) -> tuple[Step, ...]:
    """Deduplicate and order step rows, and complete them from the log.

    A row that is missing or still `running` is taken from the log. Without a log, the step named by the eval's own
    reason failed. Rows are returned unchanged if one has a step that this runner does not have.
    """
    if any(row.name not in STEPS for row in rows):
        return tuple(rows)
    known: dict[str, Step] = {}
    for row in rows:
        known[row.name] = min(known.get(row.name, row), row, key=_rank)
    logged = {step.name: step for step in steps_in(log or "")}
    named = step_of(reason)
    if named and named not in logged:
        logged[named] = Step(name=named, status="failed")
    for name, step in logged.items():
        if name not in known or known[name].status == "running":
            known[name] = _with_rate(step, reason)
    return tuple(known[name] for name in STEPS if name in known)


def _rank(row: Step) -> tuple[int, bool]:
    return ("failed", "passed", "skipped", "running").index(row.status), row.error is None


def _with_rate(step: Step, reason: str | None) -> Step:
    """Give failed tests the reason that their row would have; the log has the ratio with more digits."""
    match = _SHORT.fullmatch((reason or "").strip())
    if step.name == "tests" and match and match["rate"] and (step.error or "").startswith("Error: Tests failed (ratio"):
        return step.model_copy(update={"error": f"tests failed ({match['rate']})"})
    return step


def _block(first: str, lines: Sequence[str], at: int) -> str:
    """Return the error that begins in line `at`, up to the runner's next mark."""
    block = [first]
    # Uses indices, because copying the rest of the log for every error takes quadratic time.
    for below in range(at + 1, len(lines)):
        if _MARK.match(lines[below]) or lines[below].startswith("[vitest] "):
            break
        block.append(lines[below].rstrip("\r"))
    return "\n".join(block).rstrip()
