"""The document of one run: only what is printed, so that it can be read back from its markdown."""

from evalscribe.evidence import CitationStatus, Role
from evalscribe.finding import CauseKind, Classification, Confidence, Recurrence
from evalscribe.ids import Frozen
from evalscribe.pattern import Pattern, Recommendation
from evalscribe.run import RunStatus


class RunHeader(Frozen):
    """The run as the report prints it."""

    id: str
    provider: str
    model: str
    experiment: str = "default"
    status: RunStatus = "completed"
    status_reason: str | None = None
    passed: int
    failed: int
    total: int
    listed: int
    """How many failures the source listed: may be fewer than `failed`."""
    url: str | None = None
    names_all: bool = False
    """Whether the source names every eval of the run, not only the failures."""

    @property
    def incomplete(self) -> int:
        return max(0, self.total - self.passed - self.failed)


class EvalRef(Frozen):
    path: str
    """`category/name`, with `#trial` where the source has several trials."""
    url: str | None = None


class Snippet(Frozen):
    """Quoted lines, printed with their place."""

    role: Role
    path: str
    first: int
    text: str
    status: CitationStatus = "verified"


class Opinion(Frozen):
    """The judge's own label, which a person's may override."""

    id: str
    classification: Classification
    confidence: Confidence


class Entry(Frozen):
    """One finding as printed: one eval, or a group that one verdict answers for."""

    evals: tuple[EvalRef, ...]
    step: str | None = None
    classification: Classification | None
    """The label in force; None when unclassified."""
    cause: str | None = None
    cause_kind: CauseKind | None = None
    uncertain: bool = False
    judge: Opinion | None = None
    why: str = ""
    error: str = ""
    reasoning: str = ""
    """The reasoning, or the reason why there is no verdict."""
    recurrence: Recurrence = Recurrence()
    snippets: tuple[Snippet, ...] = ()
    reviewer: tuple[str, ...] = ()
    """Each `Reviewer:` line's text; a person wrote it."""
    notes: tuple[str, ...] = ()
    """Text that a person added to this entry elsewhere."""

    @property
    def reviewed(self) -> bool:
        """Whether a person changed or confirmed the label."""
        changed = self.judge is not None and self.classification != self.judge.classification
        return changed or bool(self.reviewer)


class Report(Frozen):
    """What `report_markdown` renders and parses: `parse(render(report)) == report`."""

    run: RunHeader
    date: str
    """ISO date of the first analysis."""
    revision: int = 1
    judges: tuple[str, ...] = ()
    own_prompts: bool = False
    """Whether the workspace's own prompt templates were used."""
    evidence: str = ""
    """Short content id of all evidence: `sha256:<8 hex>`."""
    earlier: tuple[str, ...] = ()
    """File names of earlier reports that were compared, newest first."""
    entries: tuple[Entry, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    resolved: tuple[str, ...] = ()
    """Evals of earlier reports that ran here and did not fail, or are no longer among the failures."""
    incomplete_evals: tuple[str, ...] = ()
    """Paths of the evals that never completed, where the source names them."""
    recommendations: tuple[Recommendation, ...] = ()
    actions_taken: str = ""
    """Markdown that people wrote under `Actions taken`; empty means none."""
