"""Define the evidence of a failed eval, citations of the evidence, and the fingerprint with which failures of different
runs are matched."""

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
    """Path of the eval, without the number of the trial."""
    eval_id: str
    step: str | None = None
    passed: tuple[str, ...] = ()
    """Steps that passed, if the source names them."""
    signature: str | None = None
    """Error signature; None if the log ends without stating the reason for the failure. A failure without an error
    signature matches no other failure."""
    checks: str | None = None
    """Content id of the names of the failed tests, if the runner names them."""
    hidden: bool = False
    """Whether the log shortens the values that the test compared, as in `{ …(5) }`. Failures with shortened values
    match only if their `checks` are equal."""
    judged: bool = True
    """Whether the model's work was graded; False if the eval failed before grading."""
    task: str | None = None
    """Content id of the task; None if the source has none."""
    grader: str | None = None
    """Content id of the grader's files; None if the source has none."""
    method: int
    """Version of the code that computed this fingerprint. A fingerprint that an older version computed is replaced."""


Role = Literal["task", "output", "expected", "grader", "log", "transcript", "known_gaps"]
ROLES: tuple[Role, ...] = ("task", "output", "expected", "grader", "log", "transcript", "known_gaps")
CitationStatus = Literal["verified", "relocated", "unverified"]
Severity = Literal["error", "warning"]


class Document(Frozen):
    """A named text with a role. The role depends on where the source stores the text, never on the text's name."""

    role: Role
    path: str
    """Path of the document, as the source spells it. The path is untrusted and never used as a file system path."""
    text: str

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Lines of the text, without line endings. Line 1 is `lines[0]`. Only `\\n` and `\\r\\n` end a line."""
        # `splitlines` would also split at form feeds and U+2028, so line numbers would differ from those that tools
        # print.
        return tuple(line.removesuffix("\r") for line in self.text.split("\n"))

    @property
    def line_count(self) -> int:
        """Number of lines, as editors count them. A line break at the end of the text does not start another line."""
        return len(self.lines) - (not self.lines[-1])


def files_digest(documents: Iterable[Document], role: Role) -> str | None:
    """Return the content id of all files with this role; None if there are no such files.

    Differences in line endings are ignored.
    """
    files = sorted(
        (document.path, document.text.replace("\r\n", "\n")) for document in documents if document.role == role
    )
    return content_id(files) if files else None


class Evidence(Frozen):
    """The evidence of one failed eval. The source that read the documents has redacted secrets in them."""

    eval: Eval
    steps: tuple[Step, ...] = ()
    documents: tuple[Document, ...] = ()
    missing: tuple[str, ...] = ()
    """One phrase for each kind of evidence that the source does not have, such as `output files were never stored`."""
    version: str | None = None
    """Content id of the version number that the source gives for the task and the grader; None if the source gives no
    version number."""

    def of(self, *roles: Role) -> tuple[Document, ...]:
        return tuple(document for document in self.documents if document.role in roles)

    def version_of(self, role: Role) -> str | None:
        """Return an id for the version of the eval's task or grader.

        Returns None if the source has neither a version number nor the text of the task or grader.
        """
        return self.version or files_digest(self.documents, role)

    def document(self, role: Role, path: str) -> Document | None:
        return next((document for document in self.documents if document.role == role and document.path == path), None)

    @property
    def never_graded(self) -> bool:
        """Whether grading never began.

        True if the eval has no steps. A missing `failed_step` does not prove that grading never began.
        """
        return not self.steps

    @property
    def digest(self) -> str:
        """Content id of everything that a judge can see, such as the steps and documents.

        Ids and URLs are not included.
        """
        return content_id([self.eval.path, self.eval.failed_step, self.eval.reason, self.steps, self.documents])


class UnreadableEvidence(Frozen):
    """A failed eval whose evidence the source could not read."""

    eval: Eval
    reason: str


class Citation(Frozen):
    """A quotation of some lines of the evidence, and whether it was verified."""

    role: Role
    path: str
    first: int
    """Number of the first quoted line, from 1."""
    last: int
    text: str
    """The quoted lines, joined with `\\n`."""
    status: CitationStatus = "unverified"


class Excerpt(Frozen):
    """Lines selected from one document. `first` is the number of the first selected line."""

    role: Role
    path: str
    first: int
    text: str


class PackedEvidence(Frozen):
    """The part of an eval's evidence that a judge reads first, within a token budget."""

    excerpts: tuple[Excerpt, ...]
    differences: str = ""
    """Differences between the output and the reference, as hunks of limited size. The names of files that exist only in
    the output or only in the reference are also listed."""
    left_out: tuple[str, ...] = ()
    """One phrase for each kind of evidence that the source no longer has, or that did not fit into the token budget."""
    tokens: int = 0
    """Estimated number of tokens (see `tokens.estimate`). No tokenizer is used."""


class OutputLine(Frozen):
    """A line of an output document that an error points to."""

    path: str
    """Path of the document, as the source spells it."""
    line: int


class LocatedError(Frozen):
    """One error of the failed step, found in the log or in the reason that the source recorded."""

    error: str
    """The error in one line, as a person would quote it: without prefixes, absolute paths and timings."""
    tool: str | None = None
    """The tool that printed the error, such as `tsc`, `eslint` or `pytest`. The tool is recognised by the format of the
    line."""
    code: str | None = None
    """Lint rule or error code, such as `prefer-const`, `TS2554` or `attr-defined`."""
    severity: Severity = "error"
    citation: Citation | None = None
    """Verified citation of the log lines that contain the error. It is None if the error comes from the reason that the
    source recorded."""
    places: tuple[OutputLine, ...] = ()
    test: str | None = None
    """Name of the test that reported the error, if any."""
    exact: bool = False
    """Whether this error matches another error only if the two are identical, character by character. True if the
    error is a grader's description of an agent's work."""


class FailedTest(Frozen):
    name: str
    """Name of the test as the runner prints it, with its suites, such as `orders > pages` or
    `test_orders.py::test_pages[2]`."""
    message: str
    """Message that the runner printed for the test: at most 12 lines, joined with `\\n`."""
    citation: Citation
    milliseconds: float | None = None
    """Duration of the test, in milliseconds; None if the runner does not print it."""
    frames: tuple[str, ...] = ()
    """Files in the traceback, as the runner prints them, with the innermost first. The list is empty if there is no
    traceback."""

    @property
    def title(self) -> str:
        """Name of the test without its suites, such as `pages` or `test_pages[2]`."""
        return self.name.rsplit(" > ", 1)[-1].rsplit("::", 1)[-1]


class TestOutcome(Frozen):
    """The results that a test runner printed, and the status that the source recorded for the test step."""

    __test__: ClassVar[bool] = False  # prevents pytest from collecting this class

    runner: str | None = None
    passed: int | None = None
    failed: int | None = None
    failures: tuple[FailedTest, ...] = ()
    skipped: int = 0
    step: StepStatus | None = None
    """Status of the step that ran the tests; None if the source has no such step."""
    summary: Citation | None = None
    """Counts and duration that the runner printed at the end; None if the log does not contain them."""

    @property
    def silent(self) -> bool:
        """Whether tests failed but the runner printed no message for them."""
        return bool(self.failures) and not any(test.message for test in self.failures)

    @property
    def never_ran(self) -> bool:
        """Whether the runner started but no test finished, because the test file did not load or a hook failed."""
        return self.runner is not None and self.passed == 0 and self.failed == 0 and self.step == "failed"

    @property
    def all_passed(self) -> bool:
        """Whether the tests ran and none failed. The status that the source recorded takes precedence over the log."""
        if self.step in ("passed", "failed"):
            return self.step == "passed"
        return bool(self.passed) and not self.failed


class Diagnosis(Frozen):
    """The errors, test results and document pairs found in the evidence of one failure."""

    errors: tuple[LocatedError, ...] = ()
    """Errors of the failed step. Errors of severity `error` come before warnings."""
    tests: TestOutcome = TestOutcome()
    pairs: tuple[tuple[int | None, int | None], ...] = ()
    """Pairs of an output document and a reference document, as indexes into `Evidence.documents`. None stands for a
    missing document."""

    @property
    def located(self) -> LocatedError | None:
        """The most important error of the failed step; None if the log does not state the reason for the failure."""
        return self.errors[0] if self.errors else None


class PreparedFailure(Frozen):
    """Results computed once from the evidence of a failure, so that the judge does not have to compute them again."""

    digest: str
    """Digest of the evidence from which these results were computed."""
    diagnosis: Diagnosis
    packed: PackedEvidence

    @property
    def compressed(self) -> bytes:
        """This object as compressed JSON.

        The JSON is compressed because thousands of failures can wait for the judge, each with up to 25 kB of excerpts.
        """
        return zlib.compress(self.model_dump_json().encode(), 1)

    @classmethod
    def decompress(cls, data: bytes) -> Self:
        return cls.model_validate_json(zlib.decompress(data))


CLOSE = 0.1
"""A score counts as close to its threshold if the distance is at most this share of the threshold."""


class FailedScore(Frozen):
    """A score that is below the threshold for passing the eval."""

    score: float
    threshold: float

    @property
    def close(self) -> bool:
        return self.threshold - self.score <= CLOSE * abs(self.threshold)

    def __str__(self) -> str:
        return f"scored {self.score:g}, passes at {self.threshold:g}"


class GatheredEvidence(Frozen):
    """Summary of the stored evidence of one failed eval, for grouping and history."""

    eval_id: str
    digest: str
    """Content id of the evidence, or of the reason why the evidence is unreadable."""
    likeness: str
    """Content id of the normalised text that a judge reads. Failures with the same content id may share a verdict."""
    signature: str | None = None
    fingerprint: FailureFingerprint | None = None
    """Fingerprint for finding the same failure in other runs; None if the eval was read without its run."""
    failed_step: str | None = None
    """The failed step according to the evidence. The run's list of failures might not name this step."""
    missing: tuple[str, ...] = ()
    """One phrase for each kind of evidence that the source does not have, as in `Evidence.missing`."""
    reference_passes: bool = False
    """Whether a recorded reference answer passes the task."""
    scored: FailedScore | None = None
    """The score of the failed step; None if the source gives no score, or if no threshold is known."""
    agent_run: bool = False
    """Whether the eval is an agent run: the model called tools or exchanged several messages with a user."""
    prepared: bytes | None = None
    """The compressed `PreparedFailure`; None if the evidence is unreadable."""


class EvidenceSnapshot(Frozen):
    """A frozen copy of the evidence that a judge reads. It does not change if the run is read or analysed again."""

    evidence: Evidence
    """The evidence, without the URL of the eval. The URL is removed because it depends on the place from which the run
    was read."""
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
        """Parse a value that the property `written` returned. Raises `DataError` for any other value."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            message = f"{place}: {first['msg']}" if place else first["msg"]
            raise DataError(f"not the evidence of a failed eval: {one_line(message)}") from None

    @property
    def written(self) -> JsonValue:
        """The snapshot as the input of a dataset item."""
        return cast(JsonValue, self.model_dump(mode="json", exclude_defaults=True))
