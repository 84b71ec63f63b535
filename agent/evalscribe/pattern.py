"""What findings share, and what to do about it."""

from typing import Literal

from evalscribe.finding import Finding
from evalscribe.ids import Frozen

PatternKind = Literal[
    "cause", "rule", "category", "trials", "known-gaps", "recurring", "across-models", "not-the-model"
]
RecommendationGroup = Literal["eval", "lint", "model", "none"]
RECOMMENDATION_GROUPS: dict[RecommendationGroup, str] = {
    "eval": "Eval improvements",
    "lint": "Lint and configuration",
    "model": "Notes on the model",
    "none": "No action",
}


PATTERN_NAMES: dict[str, PatternKind] = {
    "Not the model": "not-the-model",
    "Lint decides": "rule",
    "Same cause": "cause",
    "Same error": "rule",
    "Category": "category",
    "Fails in every trial": "trials",
    "Known gaps": "known-gaps",
    "Fails alike for several models": "across-models",
    "Seen in earlier reports": "recurring",
}
"""How a pattern's name begins, and the kind that follows from it."""


def implied_kind(name: str) -> PatternKind | None:
    """The kind that a pattern's name tells, so that a page need not print it."""
    return next((kind for begin, kind in PATTERN_NAMES.items() if name.startswith(begin)), None)


class Pattern(Frozen):
    """Something that several failures have in common."""

    name: str
    kind: PatternKind
    evals: tuple[str, ...]
    """Paths of the evals, in the order of the report."""
    text: str
    """One line."""


class Recommendation(Frozen):
    """One proposed change, in one of the four groups."""

    id: str | None = None
    """`R1`…: stays with its cause from revision to revision; None in the groups that propose nothing."""
    group: RecommendationGroup
    text: str
    evals: tuple[str, ...] = ()
    would_pass: bool = False


Outcome = Literal["held", "did not hold", "not yet seen"]


class FollowUp(Frozen):
    """Something that was done after an earlier report, and what this run says of it."""

    report: str
    """File name of the report that names the action; with a path to it where it is another model's."""
    text: str
    """The action in the report's words, on one line."""
    evals: tuple[str, ...]
    """Paths of the evals that it was for."""
    outcome: Outcome


class NetImpact(Frozen):
    """The pass rate as run, without what never judged the model, and if the recommendations hold."""

    passed: int
    total: int
    scorable_passed: int
    scorable_total: int
    """Total without failures of kind harness or infrastructure; 0 when no eval could be scored."""
    hopeful_passed: int


class Collation(Frozen):
    """All that the findings of a run say together."""

    findings: tuple[Finding, ...]
    """With their recurrence, in the order of the report: entry 1 is the first."""
    patterns: tuple[Pattern, ...] = ()
    resolved: tuple[str, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    follow_ups: tuple[FollowUp, ...] = ()
