"""What goes into the lanes and what comes out of them."""

from collections.abc import Callable
from dataclasses import dataclass

from evalscribe.classify import CaseOf
from evalscribe.finding import Finding, Group, Unclassified, Verdict
from evalscribe.ids import Frozen
from evalscribe.ports import Judge, Store
from evalscribe.run import Run

LANES = 4
TIMEOUT_S = 660.0
"""A judge has bounds of its own and knows what it spent when they end it; this one is for a judge that hangs."""


class Judged(Frozen):
    """One group was answered."""

    group: Group
    verdict: Verdict | Unclassified
    n: int
    """How many are answered now, this one included."""
    total: int
    cached: bool
    """The store knew it, nobody was asked."""


class Counts(Frozen):
    """How many groups were answered, and how."""

    total: int = 0
    judged: int = 0
    """Asked now and answered with a verdict."""
    cached: int = 0
    unclassified: int = 0
    """Answered now with a reason in place of a verdict."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in Counts.model_fields})


class Outcome(Frozen):
    findings: tuple[Finding, ...]
    """One per group, in the order of the groups."""
    counts: Counts


def _unheard(event: Judged) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Deps:
    """Ports, callables and limits of one start; lives in this process only, never in a checkpoint."""

    run: Run
    groups: tuple[Group, ...]
    """Of evals that are among `run.failures`."""
    case_of: CaseOf
    """Group to case; called in its lane when the group's turn comes, so that cases are never held all at once."""
    judge: Judge
    store: Store
    concurrency: int = LANES
    timeout_s: float | None = TIMEOUT_S
    """For one group; None where answers may take a day."""
    fresh: bool = False
    """Ask again whatever the store knows."""
    on_event: Callable[[Judged], None] = _unheard
