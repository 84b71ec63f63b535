"""Comparisons of models, of runs, and of experiments' runs."""

from typing import Literal

from pydantic import Field

from evalscribe.ids import Frozen
from evalscribe.model.experiment import RunState
from evalscribe.model.finding import CauseKind
from evalscribe.model.run import EvalStatus

EvalChange = Literal["regressed", "fixed", "both-failed", "both-passed", "unsteady"]
"""Of one eval; `unsteady`: with several trials both sides passed as many, not all and not none."""
ExclusionReason = Literal["only-base", "only-candidate", "changed", "not-judged"]
"""Why an eval is left out: only one side has it, its task or grader differs, or the model's work was never judged."""


class Trial(Frozen):
    """One try at an eval."""

    run_id: str
    eval_id: str | None = None
    """None where the source does not name what passed."""
    trial: int = 1
    status: EvalStatus
    scores: dict[str, float] = Field(default_factory=dict)
    step: str | None = None
    error: str | None = None
    """What is recorded as the reason, in one line."""
    cause: str | None = None
    """As the run's report has it; None where the run was not analysed."""
    cause_kind: CauseKind | None = None
    why: str | None = None
    """The reason of the run's report, in one line."""
    signature: str | None = None

    @property
    def passed(self) -> bool:
        return self.status == "passed"


class Quote(Frozen):
    """Words of one side that prove a claim, or are said to."""

    side: Literal["base", "candidate"]
    place: str
    """Where in its run: `output src/main.py`, `message 5`."""
    text: str
    verified: bool


class RegressionExplanation(Frozen):
    """What a judge says about why a regressed eval fails now."""

    behaviour: str
    """A short kebab-case name of what the candidate does differently."""
    text: str
    kind: CauseKind | None = None
    quotes: tuple[Quote, ...] = ()
    judge: str
    result: str | None = None
    """Id of the stored result; None for what rules say."""


class EvalPair(Frozen):
    """One eval that both sides tried and whose tries were judged."""

    eval: str
    """Path without the trial."""
    category: str
    base: tuple[Trial, ...]
    candidate: tuple[Trial, ...]
    change: EvalChange
    why: RegressionExplanation | None = None

    @property
    def causes(self) -> tuple[str | None, str | None]:
        """Of the first failure of each side."""
        before, after = self.first_failures
        return before.cause if before else None, after.cause if after else None

    @property
    def cause_changed(self) -> bool:
        """Whether both sides fail, and for another reason."""
        before, after = self.causes
        return None not in (before, after) and before != after

    @property
    def first_failures(self) -> tuple[Trial | None, Trial | None]:
        return _first_failure(self.base), _first_failure(self.candidate)


def _first_failure(side: tuple[Trial, ...]) -> Trial | None:
    return next((trial for trial in side if not trial.passed), None)


class ExcludedEval(Frozen):
    """An eval that is left out of the figures."""

    eval: str
    reason: ExclusionReason
    detail: str


class MeanDifference(Frozen):
    """How far the candidate is from the base, and how sure that is."""

    difference: float
    """Above 0 the candidate is better; each task counts the same."""
    low: float
    high: float
    """Of the 95 % interval."""
    p: float
    """How often sides that are equally good differ at least as much."""
    exact: bool
    """Whether `p` was computed and not drawn."""
    tasks: int
    detectable: float | None = None
    """The smallest difference found in 80 of 100 comparisons with so many tasks; None where none is."""
    significant: bool = False


class ScoreDifference(Frozen):
    """Of a score that is more than passed or failed."""

    name: str
    base: float
    candidate: float
    """Means over the tasks that both have."""
    found: MeanDifference
    """`p` is corrected for the number of scores."""


class CategoryFlips(Frozen):
    """What changed in one category."""

    category: str
    evals: int
    """Of those that are named."""
    base: float | None
    candidate: float | None
    """Mean pass rates; None where not every eval is named."""
    regressed: int
    fixed: int
    p: float
    """Corrected for the number of categories."""


class Behaviour(Frozen):
    """What several regressed evals have in common."""

    name: str
    text: str
    evals: tuple[str, ...]
    by: str
    """Who says so: a judge's id, or `rules`."""
    known: bool = True
    """False for evals of which nothing tells why."""


class ComparisonSide(Frozen):
    """One of the two that are compared."""

    name: str
    """Name of the file, else `provider/model`, with the run where the other side is the same model."""
    provider: str
    model: str
    experiments: tuple[str, ...]
    runs: tuple[str, ...]
    unexplained: tuple[str, ...] = ()
    """Beginnings of the ids of runs with failures that no report explains."""
    passed: int
    trials: int
    """Of the compared evals."""
    rate: float | None
    """Mean of the compared evals' pass rates; None where there is none."""


class Comparison(Frozen):
    base: ComparisonSide
    candidate: ComparisonSide
    experiments_differ: bool = False
    """Whether a difference may come from the experiment rather than the model."""
    pairs: tuple[EvalPair, ...]
    """By eval."""
    unnamed: int = 0
    """Evals that both passed and neither source names; they count in the figures."""
    apart: tuple[ExcludedEval, ...] = ()
    incomplete: int = 0
    """Evals that a side never completed and no source names; they count nowhere."""
    passes: MeanDifference
    by_eval: float | None = None
    """How often sides that are equally good at each eval differ at least as much in single ones, in any direction;
    None where single trials cannot tell."""
    scores: tuple[ScoreDifference, ...] = ()
    categories: tuple[CategoryFlips, ...] = ()
    behaviours: tuple[Behaviour, ...] = ()
    judge: str | None = None
    """Who compared the regressed evals; None where nobody was asked."""
    notes: tuple[str, ...] = ()
    """What limits the comparison, a sentence each."""

    def of(self, change: EvalChange) -> tuple[EvalPair, ...]:
        return tuple(pair for pair in self.pairs if pair.change == change)

    @property
    def evals(self) -> int:
        return len(self.pairs) + self.unnamed


class WithinRunComparison(Frozen):
    """The failed tries of one side, each beside one of the same eval that passed."""

    side: ComparisonSide
    pairs: tuple[EvalPair, ...]
    """A pair for every failed try."""
    without: tuple[str, ...] = ()
    """Evals that never passed: there is nothing to compare them with."""
    behaviours: tuple[Behaviour, ...] = ()
    judge: str | None = None
    notes: tuple[str, ...] = ()


class MatrixRow(Frozen):
    """One eval in every column of a matrix: passed of judged tries, None where it was not tried or not judged."""

    eval: str
    cells: tuple[tuple[int, int] | None, ...]

    @property
    def rate(self) -> float | None:
        """Share of all tries that passed."""
        tries = [cell for cell in self.cells if cell]
        whole = sum(trials for _, trials in tries)
        return sum(passed for passed, _ in tries) / whole if whole else None

    @property
    def discriminates(self) -> bool:
        """Whether the columns differ in it."""
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
    """Evals that always, sometimes, never pass; of one try each, none passes sometimes."""


class Matrix(Frozen):
    """Every eval in every run."""

    columns: tuple[MatrixColumn, ...]
    rows: tuple[MatrixRow, ...]
    unnamed: int = 0
    """Evals that every run passed and none names; they count in the columns."""
    changed: tuple[str, ...] = ()
    """Evals whose task or grader is not the same everywhere."""
    notes: tuple[str, ...] = ()


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
