"""What goes into the lanes and what comes out of them."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import JsonValue

from evalscribe.classify import CaseOf
from evalscribe.finding import Finding, Group, Unclassified, Verdict
from evalscribe.ids import Frozen
from evalscribe.ports import Judge, Store
from evalscribe.run import Eval, Run

LANES = 4
TIMEOUT_S = 660.0
"""A judge has bounds of its own and knows what it spent when they end it; this one is for a judge that hangs."""


class Start(Frozen):
    """What a server's client gives in place of the live objects: a thread is started and gone on with by the same."""

    run: str
    """A run's address or id, a snapshot folder, or `sample`."""
    judge: str | None = None
    """`rules` or `provider/model`; None for what is set."""
    rubric: str | None = None
    cascade: bool = False
    concurrency: int | None = None
    budget: float | None = None
    """US dollars of this start."""


class Judged(Frozen):
    """One group was answered."""

    group: Group
    evals: tuple[Eval, ...]
    verdict: Verdict | Unclassified
    n: int
    """How many are answered now, this one included."""
    total: int
    cached: bool
    """The store knew it, nobody was asked."""

    def told(self) -> dict[str, JsonValue]:
        """As a stream tells it."""
        row: dict[str, JsonValue] = {"n": self.n, "total": self.total, "evals": [eval.path for eval in self.evals]}
        if isinstance(self.verdict, Unclassified):
            return row | {"unclassified": self.verdict.reason}
        said = self.verdict
        return row | {"classification": said.classification, "cause": said.cause, "known": self.cached}


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
    decided: int = 0
    """Groups that a judge was asked about in this run of the graph and decided."""
    undecided: tuple[Unclassified, ...] = ()
    """One reason for each other group that a judge was asked about."""


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
