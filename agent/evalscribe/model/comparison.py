"""Define the results of comparing models, runs, and runs of experiments."""

from typing import Literal

from pydantic import Field

from evalscribe.ids import Frozen
from evalscribe.model.experiment import RunState
from evalscribe.model.finding import CauseKind
from evalscribe.model.run import EvalStatus

EvalChange = Literal["regressed", "fixed", "both-failed", "both-passed", "unsteady"]
"""How the result of one eval changed. `unsteady`: both sides have the same pass rate over several trials, and this rate
is neither 0 nor 1."""
ExclusionReason = Literal["only-base", "only-candidate", "changed", "not-judged"]
"""Why an eval is not compared. `only-base` and `only-candidate`: the other side does not have the eval. `changed`: the
task or the grader changed. `not-judged`: an output was never judged."""


class Trial(Frozen):
    run_id: str
    eval_id: str | None = None
    """Id of the eval; None if the eval passed and the source names only failures."""
    trial: int = 1
    status: EvalStatus
    scores: dict[str, float] = Field(default_factory=dict)
    step: str | None = None
    error: str | None = None
    """The reason for the failure that the source gives, in one line."""
    cause: str | None = None
    """The cause of the failure according to the run's report; None if the run was not analysed."""
    cause_kind: CauseKind | None = None
    why: str | None = None
    """The reason for the failure according to the run's report, in one line."""
    signature: str | None = None

    @property
    def passed(self) -> bool:
        return self.status == "passed"


class Quote(Frozen):
    """A quotation from one of the compared sides, and whether the quotation was verified."""

    side: Literal["base", "candidate"]
    place: str
    """Place of the quotation in the run, such as `output src/main.py` or `message 5`."""
    text: str
    verified: bool


class RegressionExplanation(Frozen):
    """A judge's explanation of why an eval that passed in the base fails in the candidate."""

    behaviour: str
    """A short kebab-case name of what the candidate does differently."""
    text: str
    kind: CauseKind | None = None
    quotes: tuple[Quote, ...] = ()
    judge: str
    result: str | None = None
    """Id of the judge's stored result; None if the judge is the rules engine."""


class EvalPair(Frozen):
    """One compared eval. Both sides have graded trials of the eval."""

    eval: str
    """Path of the eval, without the number of the trial."""
    category: str
    base: tuple[Trial, ...]
    candidate: tuple[Trial, ...]
    change: EvalChange
    why: RegressionExplanation | None = None

    @property
    def causes(self) -> tuple[str | None, str | None]:
        """The cause of the first failure on each side."""
        base, candidate = self.first_failures
        return base.cause if base else None, candidate.cause if candidate else None

    @property
    def cause_changed(self) -> bool:
        """Whether the failures on the two sides have different causes. False if a cause is unknown."""
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
    """Mean difference between the candidate and the base, with the uncertainty of the difference."""

    difference: float
    """Mean of the differences of all tasks. Each task has the same weight. The mean is above 0 if the candidate is
    better."""
    low: float
    high: float
    """Upper bound of the 95 % confidence interval; `low` is the lower bound."""
    p: float
    """p-value: the probability of a difference of at least this size if both sides are equally good."""
    exact: bool
    """Whether the p-value is exact. If not, it was estimated by random sampling."""
    tasks: int
    detectable: float | None = None
    """Minimum detectable effect at a power of 80 % with this number of tasks; None if no effect reaches that power."""
    significant: bool = False


class ScoreDifference(Frozen):
    """Difference between the sides in a score that has values other than passed and failed."""

    name: str
    base: float
    candidate: float
    """The candidate's mean score over the tasks that both sides have. `base` is the same mean for the base."""
    effect: MeanDifference
    """The difference with its uncertainty. The p-value is corrected for the number of scores."""


class CategoryFlips(Frozen):
    """How the results in one category of evals changed."""

    category: str
    evals: int
    """Number of evals in the category whose names are known."""
    base: float | None
    candidate: float | None
    """Mean pass rate of the candidate; None if the names of some evals in the category are unknown. `base` is the same
    rate for the base."""
    regressed: int
    fixed: int
    p: float
    """p-value, corrected for the number of categories."""


class Behaviour(Frozen):
    """A change of behaviour that several regressed evals have in common."""

    name: str
    text: str
    evals: tuple[str, ...]
    by: str
    """Id of the judge that named the behaviour, or `rules`."""
    explained: bool = True
    """False in the entry that collects the evals whose regression has no known reason."""


class ComparisonSide(Frozen):
    """One side of a comparison: the base or the candidate."""

    name: str
    """Name of the side: `provider/model`, followed by the run's id if both sides have the same model."""
    provider: str
    model: str
    experiments: tuple[str, ...]
    runs: tuple[str, ...]
    unexplained: tuple[str, ...] = ()
    """Shortened ids of this side's runs that have failures without an explanation in a report."""
    passed: int
    trials: int
    """Number of this side's trials of the compared evals."""
    rate: float | None
    """Mean pass rate of the compared evals; None if no evals are compared."""


class Comparison(Frozen):
    base: ComparisonSide
    candidate: ComparisonSide
    experiments_differ: bool = False
    """Whether the runs belong to different experiments. If so, a difference might be due to the experiments."""
    pairs: tuple[EvalPair, ...]
    """The compared evals, in order."""
    unnamed: int = 0
    """Number of evals that passed on both sides but are named by neither source. They are included in `passes`."""
    apart: tuple[ExcludedEval, ...] = ()
    incomplete: int = 0
    """Number of evals that one side did not complete and that no source names. They are not included in `passes`."""
    passes: MeanDifference
    by_eval: float | None = None
    """p-value of the differences in single evals, in either direction. It is the probability of differences at least
    this large if both sides are equally good at each eval. It is None if each eval has only one trial."""
    scores: tuple[ScoreDifference, ...] = ()
    categories: tuple[CategoryFlips, ...] = ()
    behaviours: tuple[Behaviour, ...] = ()
    judge: str | None = None
    """Id of the judge that compared the regressed evals; None if no judge was used."""
    notes: tuple[str, ...] = ()
    """Limitations of the comparison, one sentence each."""

    def of(self, change: EvalChange) -> tuple[EvalPair, ...]:
        return tuple(pair for pair in self.pairs if pair.change == change)

    @property
    def evals(self) -> int:
        return len(self.pairs) + self.unnamed


class WithinRunComparison(Frozen):
    """Comparison of the failed trials of one run with passed trials of the same evals."""

    side: ComparisonSide
    pairs: tuple[EvalPair, ...]
    """One pair of a failed and a passed trial for each failed trial."""
    without: tuple[str, ...] = ()
    """Evals that never passed in this run. Their failed trials cannot be compared with a passed trial."""
    behaviours: tuple[Behaviour, ...] = ()
    judge: str | None = None
    notes: tuple[str, ...] = ()


class MatrixRow(Frozen):
    """One eval in a matrix of results.

    Each cell belongs to one column. The cell contains two numbers: how many trials of the eval passed, and how many
    were graded. The cell is None if the column has no trials of the eval.
    """

    eval: str
    cells: tuple[tuple[int, int] | None, ...]

    @property
    def rate(self) -> float | None:
        """Share of the eval's trials that passed, over all columns."""
        judged_cells = [cell for cell in self.cells if cell]
        total = sum(trials for _, trials in judged_cells)
        return sum(passed for passed, _ in judged_cells) / total if total else None

    @property
    def discriminates(self) -> bool:
        """Whether the pass rate of this eval differs between the columns."""
        rates = {passed / trials for passed, trials in filter(None, self.cells) if trials}
        return len(rates) > 1


class MatrixColumn(Frozen):
    """One column of a matrix: a run, or all runs of one model."""

    name: str
    runs: tuple[str, ...]
    passed: int
    trials: int
    always: int
    sometimes: int
    never: int
    """Number of evals without a passed trial. `always` counts the evals whose trials all passed, and `sometimes` the
    evals of which some, but not all, trials passed."""


class Matrix(Frozen):
    """A table of the results of every eval in every run."""

    columns: tuple[MatrixColumn, ...]
    rows: tuple[MatrixRow, ...]
    unnamed: int = 0
    """Number of evals that passed in every run but are named by no source. They are included in the columns' totals."""
    changed: tuple[str, ...] = ()
    """Evals whose task or grader differs between the runs."""
    notes: tuple[str, ...] = ()


RunVerdict = Literal["regressed", "improved", "no-detectable-change", "inconclusive", "not-comparable"]
ScoreKind = Literal["passed", "graded"]
"""Kind of a score. `passed`: all values are 0 or 1. `graded`: other values occur, so the means are compared."""


class RunSide(Frozen):
    """One of the two compared runs."""

    run_id: str
    name: str | None = None
    experiment: str
    experiment_version_id: str
    dataset_version_id: str
    build: str | None = None
    """Name of the deployment, and the version of the deployment's source code. None if the target is not a
    component."""
    state: RunState
    repetitions: int
    tries: int
    """Number of trials of the compared items. The other numbers of this side refer to the same items."""
    passed: int
    failed: int
    errors: int
    unscored: int
    missing: int
    """Number of trials that never started because the run failed or was cancelled."""
    rate: float | None = None
    """Pass rate: the share of passed trials of each item, averaged over all items. Trials without a verdict count as
    not passed."""
    rate_of_scored: float | None = None
    """Pass rate over the trials that have a verdict."""

    @property
    def shown(self) -> str:
        return self.name or self.run_id


class ItemSide(Frozen):
    """Results of one dataset item on one side."""

    passed: int
    scored: int
    """Number of trials that passed or failed."""
    explanation: str | None = None
    """The scorers' explanation of the verdict on one trial that shows the change, in one line."""
    output: str | None = None
    """The beginning of the output of the trial that shows the change, in one line."""


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
    """The candidate's mean score over the items that have a score on both sides. `base` is the same mean for the base.
    """
    effect: MeanDifference
    """The difference with its uncertainty. The p-value is corrected for the number of scorers."""
    fell: int
    rose: int
    """Number of items whose mean score increased. `fell` counts the items whose mean score decreased."""
    broken: tuple[int, int] = (0, 0)
    """Number of trials, for base and candidate, in which the scorer broke or abstained."""


class PassAtKPair(Frozen):
    """pass@k and pass^k of both sides, as means over the items that have k trials on both sides."""

    k: int
    items: int
    any: tuple[float, float]
    """Probability that at least one of k trials passes (pass@k), for base and candidate."""
    every: tuple[float, float]
    """Probability that all of k trials pass (pass^k), for base and candidate."""


class RunComparison(Frozen):
    base: RunSide
    candidate: RunSide
    verdict: RunVerdict
    summary: str
    """The verdict of the comparison and the reason for it, in one sentence."""
    warnings: tuple[str, ...] = ()
    """Important caveats about the verdict, one sentence each."""
    items: int = 0
    """Number of dataset items that both runs have."""
    judged: int = 0
    """Number of compared items. These are the items with a verdict on both sides."""
    coverage: float = 0.0
    """Share of the trials that have a verdict. For each item, the smaller share of the two sides is
    used. The result is the mean over all items."""
    clusters: int | None = None
    """Number of clusters to which the compared items belong; None if each item is an independent observation."""
    passes: MeanDifference | None = None
    """Difference between the pass rates of both sides over the compared items; None if no items are compared."""
    scorers: tuple[ScorerMovement, ...] = ()
    regressed: tuple[ItemChange, ...] = ()
    fixed: tuple[ItemChange, ...] = ()
    flaky: tuple[ItemChange, ...] = ()
    """Items that have both passed and failed trials on the same side. It is not certain that the results of these items
    changed."""
    several: tuple[PassAtKPair, ...] = ()
    """pass@k and pass^k of both sides; empty if each item has a single trial."""
    noise: float | None = None
    """Probability that a base trial and a candidate trial of the same item have different outcomes. It is only known if
    both runs have the same build; otherwise it is None."""
    mismatches: tuple[str, ...] = ()
    """Differences between the items or scorers of the two runs. If there are any, the runs are compared only if
    `--allow-mismatch` is given, and only on the items and scorers that they share."""
    notes: tuple[str, ...] = ()
    """Limitations of the comparison, one sentence each."""


def format_points(difference: float) -> str:
    """Format the absolute difference of two shares in percentage points, such as `20.0 points`."""
    return f"{abs(difference) * 100:.1f} points"


def format_p_value(p: float, *, exact: bool) -> str:
    """Format a p-value, such as `p 0.008`. Add `, drawn` if the p-value was estimated by random sampling."""
    return f"p {'< 0.0001' if p < 0.0001 else f'{p:.2g}'}{'' if exact else ', drawn'}"
