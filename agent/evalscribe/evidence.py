"""Everything known about one failed eval, and places in it."""

from collections.abc import Iterable
from functools import cached_property
from typing import Literal

from evalscribe.ids import Frozen, content_id
from evalscribe.run import Eval, Step
from evalscribe.sighting import Sighting

Role = Literal["task", "output", "expected", "grader", "log", "transcript", "known_gaps"]
ROLES: tuple[Role, ...] = ("task", "output", "expected", "grader", "log", "transcript", "known_gaps")
CitationStatus = Literal["verified", "relocated", "unverified"]


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

    def of(self, *roles: Role) -> tuple[Document, ...]:
        return tuple(document for document in self.documents if document.role in roles)

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


class Unreadable(Frozen):
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


class Packed(Frozen):
    """The part of an eval's evidence that a judge reads first, within a token budget."""

    excerpts: tuple[Excerpt, ...]
    differences: str = ""
    """Output against reference as hunks, already bounded; what only one side has is named, not printed."""
    left_out: tuple[str, ...] = ()
    """Evidence that the source no longer has or that the token budget left out, one phrase each."""
    tokens: int = 0
    """Estimated offline (`tokens.estimate`)."""


class Gathered(Frozen):
    """What triage needs to know of one failed eval whose evidence is in the store."""

    eval_id: str
    digest: str
    """Content id of the evidence; of the reason where it is unreadable."""
    likeness: str
    """Content id of what a judge reads, after normalisation: equal ones may share a verdict."""
    signature: str | None = None
    sighting: Sighting | None = None
    """How it compares with other runs; None where it was read apart from its run."""
    failed_step: str | None = None
    """The failed step according to the evidence; the run's list of failures may lack it."""
    missing: tuple[str, ...] = ()
    """Evidence that the source no longer has (`Evidence.missing`)."""
