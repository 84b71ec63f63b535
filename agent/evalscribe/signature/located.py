"""What was found in a log: located errors and the outcome of the tests."""

from typing import ClassVar, Literal

from evalscribe.evidence import Citation
from evalscribe.ids import Frozen
from evalscribe.run import StepStatus

Severity = Literal["error", "warning"]


class Place(Frozen):
    """A line of an output document that an error points to."""

    path: str
    """Path of the document, as the source spells it."""
    line: int


class Located(Frozen):
    """One error of the failed step, found in the log or in the recorded reason."""

    error: str
    """In one line, as a person would quote it: without prefixes, absolute paths and timings."""
    tool: str | None = None
    """`tsc`, `eslint`, `vitest`, `pytest`, `mypy`, `ruff`, `pip`, `bundler`… by the look of the line."""
    code: str | None = None
    """Lint rule or error code: `prefer-const`, `TS2554`, `PLW2901`, `attr-defined`."""
    severity: Severity = "error"
    citation: Citation | None = None
    """The log lines, verified; None where the error is the recorded reason, which is no document."""
    places: tuple[Place, ...] = ()
    test: str | None = None
    """Name of the test, where a test said it."""
    exact: bool = False
    """Whether no character of it is an accident: a grader's words about what an agent did."""


class FailedTest(Frozen):
    name: str
    """As the runner prints it, with the suites around it: `orders > pages`, `test_orders.py::test_pages[2]`."""
    message: str
    """The runner's message, lines joined with `\\n`, at most twelve of them."""
    citation: Citation
    milliseconds: float | None = None
    """Duration, if the runner prints it."""
    frames: tuple[str, ...] = ()
    """Files of the traceback as the runner prints them, innermost first; empty if it prints none."""

    @property
    def title(self) -> str:
        """The innermost name: `pages`, `test_pages[2]`."""
        return self.name.rsplit(" > ", 1)[-1].rsplit("::", 1)[-1]


class TestOutcome(Frozen):
    """What a test runner said after its own header, and what the source recorded of the test step."""

    __test__: ClassVar[bool] = False  # not a test class, whatever pytest makes of its name

    runner: str | None = None
    passed: int | None = None
    failed: int | None = None
    failures: tuple[FailedTest, ...] = ()
    skipped: int = 0
    step: StepStatus | None = None
    """Status of the step that ran the tests; None where the source has no such step."""

    @property
    def silent(self) -> bool:
        """Whether tests failed and the runner printed no message for any of them."""
        return bool(self.failures) and not any(test.message for test in self.failures)

    @property
    def never_ran(self) -> bool:
        """Whether the runner started but no test finished: the file did not load, or a hook failed."""
        return self.runner is not None and self.passed == 0 and self.failed == 0 and self.step == "failed"

    @property
    def all_passed(self) -> bool:
        """Whether the tests ran and none failed; the source's own record outranks the log."""
        if self.step in ("passed", "failed"):
            return self.step == "passed"
        return bool(self.passed) and not self.failed
