"""Comparisons of two runs of experiments."""

from typing import Literal

from evalscribe.ids import Frozen
from evalscribe.model.comparison import MeanDifference
from evalscribe.model.experiment import RunState

RunVerdict = Literal["regressed", "improved", "no-detectable-change", "inconclusive", "not-comparable"]
ScoreKind = Literal["passed", "graded"]
"""`graded`: it takes values other than 0 and 1, and its mean is compared."""


class RunSide(Frozen):
    """One of the two runs."""

    run_id: str
    name: str | None = None
    experiment: str
    experiment_version_id: str
    dataset_version_id: str
    build: str | None = None
    """Name of the deployment, and of which source it is; None for targets that are no components."""
    state: RunState
    repetitions: int
    tries: int
    """Of the items that are compared, as are all figures of a side."""
    passed: int
    failed: int
    errors: int
    unscored: int
    missing: int
    """Tries that were never made, in a run that failed or was cancelled."""
    rate: float | None = None
    """Mean over all items of the share of their tries that passed; what broke did not pass."""
    rate_of_scored: float | None = None
    """The same over the tries that have a verdict."""

    @property
    def shown(self) -> str:
        return self.name or self.run_id


class ItemSide(Frozen):
    """What one side did with an item."""

    passed: int
    scored: int
    """Tries with a verdict."""
    said: str | None = None
    """What scorers say of a try that shows it, in a line."""
    output: str | None = None
    """The beginning of what the target answered in that try, on one line."""


class ItemChange(Frozen):
    item: str
    base: ItemSide
    candidate: ItemSide
    scorers: tuple[str, ...] = ()
    """Whose verdicts differ between the sides."""


class ScorerMovement(Frozen):
    name: str
    required: bool
    kind: ScoreKind
    base: float
    candidate: float
    """Means over the items that both have a score of."""
    found: MeanDifference
    """`p` is corrected for the number of scorers."""
    fell: int
    rose: int
    """Items whose mean moved."""
    broken: tuple[int, int] = (0, 0)
    """Scores that broke or abstained, of base and candidate."""


class PassAtKPair(Frozen):
    """How often one of k tries passes, and how often all do; means over the items that have k tries on both sides."""

    k: int
    items: int
    any: tuple[float, float]
    """pass@k of base and candidate."""
    every: tuple[float, float]
    """pass^k."""


class RunComparison(Frozen):
    base: RunSide
    candidate: RunSide
    verdict: RunVerdict
    said: str
    """The verdict in one sentence, with what it rests on."""
    warnings: tuple[str, ...] = ()
    """What must not be overlooked beside the verdict, a sentence each."""
    items: int = 0
    """That both runs share."""
    judged: int = 0
    """Of these, those with a verdict on both sides: what is compared."""
    coverage: float = 0.0
    """Share of the tries that have a verdict on both sides."""
    clusters: int | None = None
    """How many independent observations the judged items are; None where each item is one."""
    passes: MeanDifference | None = None
    """Of the pass rates of the judged items; None where nothing is compared."""
    scorers: tuple[ScorerMovement, ...] = ()
    regressed: tuple[ItemChange, ...] = ()
    fixed: tuple[ItemChange, ...] = ()
    flaky: tuple[ItemChange, ...] = ()
    """Neither the same nor surely another: some tries of a side pass and some do not."""
    several: tuple[PassAtKPair, ...] = ()
    """None for single tries."""
    noise: float | None = None
    """Of two runs of the same version and build: how often two tries at an item end differently."""
    mismatches: tuple[str, ...] = ()
    """Why the runs cannot be compared; with `--allow-mismatch` what was left out for it."""
    notes: tuple[str, ...] = ()
    """What limits the comparison, a sentence each."""


def format_points(difference: float) -> str:
    """`20.0 points`, of a difference of shares, whichever way it goes."""
    return f"{abs(difference) * 100:.1f} points"


def format_p_value(p: float, *, exact: bool) -> str:
    """`p 0.008`; one that was estimated says so."""
    return f"p {'< 0.0001' if p < 0.0001 else f'{p:.2g}'}{'' if exact else ', drawn'}"
