"""Evidence of one failed eval, citations of it, and the fingerprint that matches it with other runs."""

import zlib
from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar, Literal, Self, cast

from pydantic import JsonValue, ValidationError

from evalscribe.errors import DataError
from evalscribe.ids import Frozen, content_id
from evalscribe.model.run import Eval, Run, Step, StepStatus
from evalscribe.text import one_line


class FailureFingerprint(Frozen):
    run: str
    provider: str
    model: str
    experiment: str
    eval: str
    """Path, without the trial: the trials of an eval are the same eval."""
    eval_id: str
    step: str | None = None
    passed: tuple[str, ...] = ()
    """Steps that passed, where the source tells."""
    signature: str | None = None
    """None where the log ends before the reason: such a failure is like no other."""
    checks: str | None = None
    """Content id of the names of the failed tests, where the runner names them."""
    hidden: bool = False
    """Whether the log keeps the compared values to itself (`{ …(5) }`): then only equal `checks` make two alike."""
    judged: bool = True
    """Whether the model's work was reached at all."""
    task: str | None = None
    """Content id of the task, None where the source has none."""
    grader: str | None = None
    """Content id of the grader's files, None where the source has none."""
    method: int
    """Which version of our code made it; one of an older version is made anew."""


Role = Literal["task", "output", "expected", "grader", "log", "transcript", "known_gaps"]
ROLES: tuple[Role, ...] = ("task", "output", "expected", "grader", "log", "transcript", "known_gaps")
CitationStatus = Literal["verified", "relocated", "unverified"]
Severity = Literal["error", "warning"]


class Document(Frozen):
    """A named text of one role. The role comes from where the source found it, never from its name."""

    role: Role
    path: str
    """As the source spells it; untrusted, never used as a path of the file system."""
    text: str

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines without their ends; line 1 is `lines[0]`. Only `\\n` and `\\r\\n` end a line."""
        return tuple(line.removesuffix("\r") for line in self.text.split("\n"))

    @property
    def line_count(self) -> int:
        """The number of lines as editors count them: a line break at the end begins no further line."""
        return len(self.lines) - (not self.lines[-1])


def files_digest(documents: Iterable[Document], role: Role) -> str | None:
    """Content id of all files of a role, however their lines end; None where there is none."""
    files = sorted((d.path, d.text.replace("\r\n", "\n")) for d in documents if d.role == role)
    return content_id(files) if files else None


class Evidence(Frozen):
    """The documents of one failed eval. Redacted by the source that read it."""

    eval: Eval
    steps: tuple[Step, ...] = ()
    documents: tuple[Document, ...] = ()
    missing: tuple[str, ...] = ()
    """What the source could not give, one phrase each: `output files were never stored`."""
    version: str | None = None
    """Content id of the source's own version of task and grader; None to compare their texts."""

    def of(self, *roles: Role) -> tuple[Document, ...]:
        return tuple(document for document in self.documents if document.role in roles)

    def version_of(self, role: Role) -> str | None:
        """Return what tells versions of the task or the grader apart; None where the source has nothing of it."""
        return self.version or files_digest(self.documents, role)

    def document(self, role: Role, path: str) -> Document | None:
        return next((d for d in self.documents if d.role == role and d.path == path), None)

    @property
    def never_graded(self) -> bool:
        """Whether no step started. Only then does a missing failed step mean that grading never began."""
        return not self.steps

    @property
    def digest(self) -> str:
        """Content id of what a judge can see: steps and documents, without ids or urls."""
        return content_id([self.eval.path, self.eval.failed_step, self.eval.reason, self.steps, self.documents])


class UnreadableEvidence(Frozen):
    """One failed eval whose evidence the source could not get; the others go on."""

    eval: Eval
    reason: str


class Citation(Frozen):
    """A claim that some lines of the evidence say something, and whether they do."""

    role: Role
    path: str
    first: int
    """First line, counted from 1."""
    last: int
    text: str
    """The quoted text, lines joined with `\\n`."""
    status: CitationStatus = "unverified"


class Excerpt(Frozen):
    """Lines of one document that were chosen to be read: `first` is the number of the first of them."""

    role: Role
    path: str
    first: int
    text: str


class PackedEvidence(Frozen):
    """The part of an eval's evidence that a judge reads first, within a token budget."""

    excerpts: tuple[Excerpt, ...]
    differences: str = ""
    """Output against reference as hunks, already bounded; what only one side has is named, not printed."""
    left_out: tuple[str, ...] = ()
    """Evidence that the source no longer has or that the token budget left out, one phrase each."""
    tokens: int = 0
    """Estimated offline (`tokens.estimate`)."""


class OutputLine(Frozen):
    """A line of an output document that an error points to."""

    path: str
    """Path of the document, as the source spells it."""
    line: int


class LocatedError(Frozen):
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
    places: tuple[OutputLine, ...] = ()
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


class Diagnosis(Frozen):
    """What the evidence says about the failure: computed once, and used by grouping, packing, rules and labels."""

    errors: tuple[LocatedError, ...] = ()
    """Errors of the failed step, errors before warnings."""
    tests: TestOutcome = TestOutcome()
    pairs: tuple[tuple[int | None, int | None], ...] = ()
    """Output and reference that answer each other, as positions in `Evidence.documents`; None on a side without one."""

    @property
    def located(self) -> LocatedError | None:
        """The best of the errors; None if the log ends before the reason."""
        return self.errors[0] if self.errors else None


class PreparedFailure(Frozen):
    """What was computed from the evidence of one failure, on its way from `gather` to the judge."""

    digest: str
    """Of the evidence that it was computed from."""
    diagnosis: Diagnosis
    packed: PackedEvidence

    @property
    def compressed(self) -> bytes:
        """As bytes: failures wait for the judge by the thousand, and each may have 25 kB of excerpts."""
        return zlib.compress(self.model_dump_json().encode(), 1)

    @classmethod
    def decompress(cls, data: bytes) -> Self:
        return cls.model_validate_json(zlib.decompress(data))


class GatheredEvidence(Frozen):
    """What triage needs to know of one failed eval whose evidence is in the store."""

    eval_id: str
    digest: str
    """Content id of the evidence; of the reason where it is unreadable."""
    likeness: str
    """Content id of what a judge reads, after normalisation: equal ones may share a verdict."""
    signature: str | None = None
    sighting: FailureFingerprint | None = None
    """How it compares with other runs; None where it was read apart from its run."""
    failed_step: str | None = None
    """The failed step according to the evidence; the run's list of failures may lack it."""
    missing: tuple[str, ...] = ()
    """Evidence that the source no longer has (`Evidence.missing`)."""
    reference_passes: bool = False
    """Whether a recorded reference answer passes the task."""
    prepared: bytes | None = None
    """`PreparedFailure`, compressed; None if the evidence is unreadable."""


class EvidenceSnapshot(Frozen):
    """What a judge is shown; nothing of it changes when the run is read or analysed again."""

    evidence: Evidence
    """Without the page of its eval, which depends on where it is looked at."""
    provider: str
    model: str
    experiment: str = "default"

    @classmethod
    def of(cls, run: Run, evidence: Evidence) -> "EvidenceSnapshot":
        eval = evidence.eval.model_copy(update={"url": None})
        frozen = evidence.model_copy(update={"eval": eval})
        return cls(evidence=frozen, provider=run.provider, model=run.model, experiment=run.experiment)

    @classmethod
    def read(cls, value: object) -> "EvidenceSnapshot":
        """What `written` gave. Raises `DataError` saying what is wrong with anything else."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            told = f"{place}: {first['msg']}" if place else first["msg"]
            raise DataError(f"no evidence of a failed eval: {one_line(told)}") from None

    @property
    def written(self) -> JsonValue:
        """As an item's input."""
        return cast(JsonValue, self.model_dump(mode="json", exclude_defaults=True))
