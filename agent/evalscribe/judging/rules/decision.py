"""What one rule decides, and the rules' common shape."""

from collections.abc import Callable
from dataclasses import dataclass

from evalscribe.judging.rules.facts import Facts
from evalscribe.model.evidence import Citation
from evalscribe.model.finding import CauseKind, Classification


@dataclass(frozen=True)
class Decision:
    """A label with its reasons; the engine adds the error line and makes a verdict of it."""

    label: Classification
    kind: CauseKind
    cause: str
    """Kebab-case, the same for equal causes."""
    confidence: float
    why: str
    reasoning: str
    """Two or three sentences."""
    citations: tuple[Citation, ...] = ()
    fix: str | None = None
    would_pass: bool = False
    uncertain: bool = False
    error: str | None = None
    """What went wrong in one line, for a failure of which the source records no reason."""
    by_error_text: bool = False
    """Whether the decision rests on the text of an error, which the code under test may have written."""


Rule = Callable[[Facts], Decision | None]
"""Decides a failure or passes it on; its name is what `Verdict.rule` says, its docstring why it is right."""
