"""Comparisons of models, of runs, and of experiments' runs."""

from typing import Literal

from pydantic import Field

from evalscribe.ids import Frozen
from evalscribe.model.experiment import RunState
from evalscribe.model.finding import CauseKind
from evalscribe.model.run import EvalStatus

EvalChange = Literal["regressed", "fixed", "both-failed", "both-passed", "unsteady"]
"""Change of one eval. `unsteady`: both sides have the same pass rate over several trials, and it is neither 0 nor 1."""
ExclusionReason = Literal["only-base", "only-candidate", "changed", "not-judged"]
"""Why an eval is not compared: only one side has it, its task or grader changed, or its output was never judged."""


class Trial(Frozen):
    run_id: str
    eval_id: str | None = None
    """None if the eval passed and the source names only failures."""
    trial: int = 1
    status: EvalStatus
    scores: dict[str, float] = Field(default_factory=dict)
    step: str | None = None
    error: str | None = None
    """The source's reason for the failure, in one line."""
    cause: str | None = None
    """The cause of the failure in the run's report; None if the run was not analysed."""
    cause_kind: CauseKind | None = None
    why: str | None = None
    """The reason of the failure in the run's report, in one line."""
    signature: str | None = None

    @property
    def passed(self) -> bool:
        return self.status == "passed"


class Quote(Frozen):
    """A quotation from one side, and whether it was verified."""

    side: Literal["base", "candidate"]
    place: str
    """Place in the run: `output src/main.py`, `message 5`."""
    text: str
    verified: bool


class RegressionExplanation(Frozen):
    """A judge's explanation of why a regressed eval fails now."""

    behaviour: str
    """A short kebab-case name of what the candidate does differently."""
    text: str
    kind: CauseKind | None = None
    quotes: tuple[Quote, ...] = ()
    judge: str
    result: str | None = None
    """Id of the stored result; None for the rules."""


class EvalPair(Frozen):
    """One eval for which both sides have graded trials."""

    eval: str
    """Path without the trial."""
    category: str
    base: tuple[Trial, ...]
    candidate: tuple[Trial, ...]
    change: EvalChange
    why: RegressionExplanation | None = None

    @property
    def causes(self) -> tuple[str | None, str | None]:
        """Cause of each side's first failure."""
        base, candidate = self.first_failures
        return base.cause if base else None, candidate.cause if candidate else None

    @property
    def cause_changed(self) -> bool:
        """Whether both sides fail, but for different reasons."""
        base, candidate = self.causes
        return None not in (base, candidate) and base != candidate

    @property
    def first_failures(self) -> tuple[Trial | None, Trial | None]:
        return _first_failure(self.base), _first_failure(self.candidate)


def _first_failure(side: tuple[Trial, ...]) -> Trial | None:
    return next((trial for trial in side if not trial.passed), None)


class ExcludedEval(Frozen):
    """An eval that a comparison leaves out."""

    eval: str
    reason: ExclusionReason
    detail: str


class MeanDifference(Frozen):
    """Difference between candidate and base, with its uncertainty."""

    difference: float
    """Mean over all tasks with equal weights; above 0 if the candidate is better."""
    low: float
    high: float
    """Bounds of the 95 % interval."""
    p: float
    """p-value: the probability that equally good sides differ by at least this much."""
    exact: bool
    """Whether `p` is exact; otherwise, it was estimated by random sampling."""
    tasks: int
    detectable: float | None = None
    """Minimum detectable effect at a power of 80 % with this number of tasks; None if no effect reaches that power."""
    significant: bool = False


class ScoreDifference(Frozen):
    """Difference in a score that can have other values than passed and failed."""

    name: str
    base: float
    candidate: float
    """Each side's mean over the tasks that both sides have."""
    effect: MeanDifference
    """`p` is corrected for the number of scores."""


class CategoryFlips(Frozen):
    """The changes in one category of evals."""

    category: str
    evals: int
    """Number of evals in the category whose names are known."""
    base: float | None
    candidate: float | None
    """Mean pass rate of each side; None if some evals of the category have no known name."""
    regressed: int
    fixed: int
    p: float
    """p-value, corrected for the number of categories."""


class Behaviour(Frozen):
    """A change in behaviour that several regressed evals have in common."""

    name: str
    text: str
    evals: tuple[str, ...]
    by: str
    """Id of the judge, or `rules`."""
    explained: bool = True
    """False for the entry with the evals whose reason is unknown."""


class ComparisonSide(Frozen):
    """One side of a comparison."""

    name: str
    """`provider/model`, with the run's id if both sides are the same model."""
    provider: str
    model: str
    experiments: tuple[str, ...]
    runs: tuple[str, ...]
    unexplained: tuple[str, ...] = ()
    """Id prefixes of runs with failures that no report explains."""
    passed: int
    trials: int
    """Number of trials of the compared evals."""
    rate: float | None
    """Mean of the compared evals' pass rates; None if there are no compared evals."""


class Comparison(Frozen):
    base: ComparisonSide
    candidate: ComparisonSide
    experiments_differ: bool = False
    """Whether the runs are of several experiments. If so, the experiment might explain a difference."""
    pairs: tuple[EvalPair, ...]
    """Pairs in the order of the evals."""
    unnamed: int = 0
    """Number of evals that both sides passed and neither source names; they count in `passes`."""
    apart: tuple[ExcludedEval, ...] = ()
    incomplete: int = 0
    """Number of evals that a side never completed and no source names; they do not count in `passes`."""
    passes: MeanDifference
    by_eval: float | None = None
    """p-value of the differences in individual evals, in either direction: the probability of differences at least this
    large if both sides are equally good at each eval. None with single trials."""
    scores: tuple[ScoreDifference, ...] = ()
    categories: tuple[CategoryFlips, ...] = ()
    behaviours: tuple[Behaviour, ...] = ()
    judge: str | None = None
    """The judge that compared the regressed evals; None without a judge."""
    notes: tuple[str, ...] = ()
    """Limitations of the comparison, one sentence each."""

    def of(self, change: EvalChange) -> tuple[EvalPair, ...]:
        return tuple(pair for pair in self.pairs if pair.change == change)

    @property
    def evals(self) -> int:
        return len(self.pairs) + self.unnamed


class WithinRunComparison(Frozen):
    """Failed trials of one run, each paired with a passed trial of the same eval."""

    side: ComparisonSide
    pairs: tuple[EvalPair, ...]
    """One pair for each failed trial."""
    without: tuple[str, ...] = ()
    """Evals that never passed in this run. Their failed trials have no passed trial to be paired with."""
    behaviours: tuple[Behaviour, ...] = ()
    judge: str | None = None
    notes: tuple[str, ...] = ()


class MatrixRow(Frozen):
    """One eval in a matrix.

    Each cell is the number of passed and of graded trials in one column, or None without trials.
    """

    eval: str
    cells: tuple[tuple[int, int] | None, ...]

    @property
    def rate(self) -> float | None:
        """Share of all trials that passed."""
        judged_cells = [cell for cell in self.cells if cell]
        total = sum(trials for _, trials in judged_cells)
        return sum(passed for passed, _ in judged_cells) / total if total else None

    @property
    def discriminates(self) -> bool:
        """Whether the columns differ in this eval."""
        rates = {passed / trials for passed, trials in filter(None, self.cells) if trials}
        return len(rates) > 1


class MatrixColumn(Frozen):
    """A run, or all runs of a model."""

    name: str
    runs: tuple[str, ...]
    passed: int
    trials: int
    always: int
    sometimes: int
    never: int
    """Number of evals that fail in all trials. `always` counts those that pass in all trials, `sometimes` those that
    pass in some."""


class Matrix(Frozen):
    """A table of the results of every eval in every run."""

    columns: tuple[MatrixColumn, ...]
    rows: tuple[MatrixRow, ...]
    unnamed: int = 0
    """Number of evals that every run passed and no source names; they count in the columns' totals."""
    changed: tuple[str, ...] = ()
    """Evals whose task or grader differs between the runs."""
    notes: tuple[str, ...] = ()


RunVerdict = Literal["regressed", "improved", "no-detectable-change", "inconclusive", "not-comparable"]
ScoreKind = Literal["passed", "graded"]
"""`graded`: the score has other values than 0 and 1, so the means are compared."""


class RunSide(Frozen):
    """One of the two compared runs."""

    run_id: str
    name: str | None = None
    experiment: str
    experiment_version_id: str
    dataset_version_id: str
    build: str | None = None
    """Name of the deployment, with the version of its source code. None if the target is not a component."""
    state: RunState
    repetitions: int
    tries: int
    """Number of trials of the compared items. The other numbers of this side also refer to these items."""
    passed: int
    failed: int
    errors: int
    unscored: int
    missing: int
    """Number of trials that were never run, because the run failed or was cancelled."""
    rate: float | None = None
    """Pass rate: mean over all items of the share of passed trials. Trials without a verdict count as not passed."""
    rate_of_scored: float | None = None
    """Pass rate over the trials that have a verdict."""

    @property
    def shown(self) -> str:
        return self.name or self.run_id


class ItemSide(Frozen):
    """Results of one item on one side."""

    passed: int
    scored: int
    """Number of trials that passed or failed."""
    explanation: str | None = None
    """The scorers' explanation of a trial that shows the change, in one line."""
    output: str | None = None
    """The beginning of that trial's output, in one line."""


class ItemChange(Frozen):
    item: str
    base: ItemSide
    candidate: ItemSide
    scorers: tuple[str, ...] = ()
    """Scorers whose verdicts differ between the sides."""


class ScorerMovement(Frozen):
    name: str
    required: bool
    kind: ScoreKind
    base: float
    candidate: float
    """Mean score over the items that have a score on both sides."""
    effect: MeanDifference
    """`p` is corrected for the number of scorers."""
    fell: int
    rose: int
    """Number of items whose mean score rose. `fell` counts the items whose mean score fell."""
    broken: tuple[int, int] = (0, 0)
    """Numbers of scores that broke or abstained, for base and candidate."""


class PassAtKPair(Frozen):
    """pass@k and pass^k of both sides, as means over the items that have k trials on both sides."""

    k: int
    items: int
    any: tuple[float, float]
    """Chance that at least one of k trials passes, for base and candidate."""
    every: tuple[float, float]
    """Chance that all of k trials pass."""


class RunComparison(Frozen):
    base: RunSide
    candidate: RunSide
    verdict: RunVerdict
    summary: str
    """The verdict in one sentence, with its basis."""
    warnings: tuple[str, ...] = ()
    """Important caveats about the verdict, one sentence each."""
    items: int = 0
    """Number of items that both runs have."""
    judged: int = 0
    """Number of compared items: those with a verdict on both sides."""
    coverage: float = 0.0
    """Share of the trials that have a verdict on both sides."""
    clusters: int | None = None
    """Number of clusters of the compared items; None if every item is an independent observation."""
    passes: MeanDifference | None = None
    """Difference of the pass rates of the compared items; None if nothing is compared."""
    scorers: tuple[ScorerMovement, ...] = ()
    regressed: tuple[ItemChange, ...] = ()
    fixed: tuple[ItemChange, ...] = ()
    flaky: tuple[ItemChange, ...] = ()
    """Items that have both passed and failed trials on one side. Their change is not certain."""
    several: tuple[PassAtKPair, ...] = ()
    """Empty for single trials."""
    noise: float | None = None
    """Probability that a base trial and a candidate trial of the same item have different outcomes. None unless both
    runs have the same build."""
    mismatches: tuple[str, ...] = ()
    """Reasons why the runs cannot be compared. With `--allow-mismatch`, the parts that were therefore left out."""
    notes: tuple[str, ...] = ()
    """Limitations of the comparison, one sentence each."""


def format_points(difference: float) -> str:
    """Format the absolute difference of two shares: `20.0 points`."""
    return f"{abs(difference) * 100:.1f} points"


def format_p_value(p: float, *, exact: bool) -> str:
    """Format a p-value: `p 0.008`, or `p 0.008, drawn` if it was estimated by random sampling."""
    return f"p {'< 0.0001' if p < 0.0001 else f'{p:.2g}'}{'' if exact else ', drawn'}"
