"""Step outcomes that the suite's runner wrote into `run.log`.

The runner sends step rows without waiting for the answer, so rows can be missing, doubled, late or in another order.
The log and the eval's own failure reason say what really happened. Pure.
"""

import re
from collections.abc import Sequence

from evalscribe.run import Step

STEPS = ("filesystem", "install", "deploy", "tsc", "eslint", "tests")
"""The runner's steps in the order in which it takes them."""
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
    """The failed step that an eval's own failure reason names: `convex dev fail` is deploy; None for other reasons."""
    if not reason:
        return None
    if match := _SHORT.fullmatch(reason.strip()):
        return match["step"] or "deploy"
    return "filesystem" if _FILESYSTEM.match(reason) else None


def is_short(reason: str | None) -> bool:
    """Whether a reason only names the step and holds no error."""
    return not reason or _SHORT.fullmatch(reason.strip()) is not None


def without_colours(text: str) -> str:
    """The text without terminal escape codes. The CLI colours a failed typecheck, and step errors are not cleaned."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def steps_in(log: str) -> tuple[Step, ...]:
    """Outcomes of the steps that the runner's part of the log names, in the runner's order.

    Lines of the reference answer, marked `(answer)`, say nothing about the model's steps. A failure wins over a
    success of the same step, and nothing counts after a failure that ends the eval: an error's text may hold lines
    that look like marks.
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
    """Step rows without duplicates and in the runner's order, completed where the log says more.

    A row that is missing or never got beyond `running` is taken from the log; without a log, the step that the eval's
    own reason names has failed. Rows with a step that this runner does not have stay as they are.
    """
    if any(row.name not in STEPS for row in rows):
        return tuple(rows)
    known: dict[str, Step] = {}
    for row in rows:
        known[row.name] = min(known.get(row.name, row), row, key=_rank)
    told = {step.name: step for step in steps_in(log or "")}
    named = step_of(reason)
    if named and named not in told:
        told[named] = Step(name=named, status="failed")
    for name, step in told.items():
        if name not in known or known[name].status == "running":
            known[name] = _with_rate(step, reason)
    return tuple(known[name] for name in STEPS if name in known)


def _rank(row: Step) -> tuple[int, bool]:
    return ("failed", "passed", "skipped", "running").index(row.status), row.error is None


def _with_rate(step: Step, reason: str | None) -> Step:
    """Failed tests with the reason that their row would have: the log gives the ratio with more digits."""
    match = _SHORT.fullmatch((reason or "").strip())
    if step.name == "tests" and match and match["rate"] and (step.error or "").startswith("Error: Tests failed (ratio"):
        return step.model_copy(update={"error": f"tests failed ({match['rate']})"})
    return step


def _block(first: str, lines: Sequence[str], at: int) -> str:
    """The error that begins in line `at`, up to the next line with a mark of the runner."""
    block = [first]
    # By index: a copy of the rest of the log for each of its errors takes quadratic time.
    for below in range(at + 1, len(lines)):
        if _MARK.match(lines[below]) or lines[below].startswith("[vitest] "):
            break
        block.append(lines[below].rstrip("\r"))
    return "\n".join(block).rstrip()
