"""A label that a person gave to one failed eval, and where it comes from."""

from evalscribe.finding import CauseKind, Classification
from evalscribe.ids import Frozen


class GivenLabel(Frozen):
    run: str
    provider: str
    model: str
    experiment: str
    eval: str
    """Path."""
    group: str | None = None
    """Equal for the evals that one entry of the report spoke of; None in reports that people wrote."""
    label: Classification
    cause_kind: CauseKind | None = None
    cause: str | None = None
    error: str | None = None
    """The error as the report prints it."""
    step: str | None = None
    note: str | None = None
    """What the person said on `Reviewer:` lines."""
    reviewer: str
    """Author of the commit; with the address where two people have one name."""
    email: str
    """Tells people of one name apart; never printed."""
    commit: str
    date: str
    """ISO date of the commit, in its author's time zone."""
    report: str
    """Name below the reports folder."""
    judge: str | None = None
    """Id of the judge that the person corrected or confirmed; None in reports that people wrote."""
    judged: Classification | None = None
    """The judge's own label."""
    in_force: bool = True
    """Whether it is the label that the report has now; an earlier reviewer's, overruled since, is kept and shown."""
