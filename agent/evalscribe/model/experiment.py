"""Experiments, their runs, gates and summaries."""

import re
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, JsonValue, field_validator

from evalscribe.ids import Frozen
from evalscribe.model.cascade import CascadeParts
from evalscribe.model.chat import Usage
from evalscribe.model.dataset import short_id
from evalscribe.model.score import Binding, Score
from evalscribe.model.target import Component, TargetFailureKind, TargetPromptVersion
from evalscribe.model.transcript import Transcript

ClauseName = Literal[
    "passed_threshold",
    "min_pass_rate",
    "max_failed_items",
    "min_pass_rate_lower_bound",
    "no_new_failures_vs",
    "max_regressions",
    "max_error_rate",
    "min_scored_fraction",
    "min_balanced_accuracy",
    "min_kappa",
]
ClauseVerdict = Literal["passed", "failed", "inconclusive"]
"""`inconclusive`: the clause cannot be evaluated, because the baseline is not comparable or nothing was scored. The
gate then fails."""


RULE = "an item passes if its target answered and every required scorer passed it"
"""The rule that `evaluate.verdict` applies. It is printed beside every verdict."""


class Clause(Frozen):
    """One condition of a gate, with the observed value."""

    name: ClauseName
    threshold: float | str
    """The required value; for `no_new_failures_vs`, the run id of the baseline."""
    observed: float | None = None
    verdict: ClauseVerdict
    low: float | None = None
    high: float | None = None
    """95 % interval of `observed`, if it is a share."""
    said: str
    """Summary in one line: `pass rate 18/20 = 90.0 % (95 %: 69.9 to 97.2 %), at least 95 % needed`."""
    luck: str | None = None
    """For a bound on the pass rate: one line on how chance affects the pass rate of a run of this size."""
    items: tuple[str, ...] = ()
    """Keys of the items that decided the clause, such as new failures or regressions."""


class Gate(Frozen):
    """The gate's decision on a finished run."""

    run_id: str
    passed: bool
    clauses: tuple[Clause, ...]
    """The evaluated clauses. If the config has none, a single clause `passed_threshold` of 1."""
    scores_digest: str
    """Content id of the scores that the gate used. It changes if the run is scored again."""
    stated: bool = True
    """False if the experiment defines no clause. The default clause then applies."""
    reason: str | None = None
    """Why the gate fails regardless of its clauses: the run failed or was cancelled. None if neither happened."""


class Bound(NamedTuple):
    """A bound on a share: absolute, or relative to the baseline's share."""

    number: float
    from_base: bool
    """Whether `number` is added to the baseline's share."""


_BOUND = re.compile(r"\s*(base)?\s*([+-]?\s*\d*\.?\d+)?\s*(%)?\s*", re.ASCII)


def parse_bound(text: str) -> Bound | None:
    """Parse a bound, such as `0.8`, `80 %` or `base-0.02`; None if the text is not a bound."""
    match = _BOUND.fullmatch(text)
    if match is None or not (match[1] or match[2]):
        return None
    return Bound(float((match[2] or "0").replace(" ", "")) / (100 if match[3] else 1), bool(match[1]))


PREVIOUS = "previous"
"""Baseline name that stands for the latest earlier run."""


class GateConfig(Frozen):
    """The part of an experiment's `config` that defines the gate. Shares are from 0 to 1, both included."""

    passed_threshold: float | None = Field(default=None, ge=0, le=1)
    """Minimum pass rate; another name for `min_pass_rate`."""
    min_pass_rate: float | str | None = None
    """A share from 0 to 1, or one relative to the pass rate of `baseline`: `base`, `base-0.02`."""
    max_failed_items: int | None = Field(default=None, ge=0)
    min_pass_rate_lower_bound: float | None = Field(default=None, ge=0, le=1)
    """The lower end of the pass rate's 95 % interval must be at least this."""
    no_new_failures_vs: str | None = None
    """Id or name of a run, or `previous`. Items that passed in that run must not fail now."""
    max_regressions: int | None = Field(default=None, ge=0)
    """Maximum number of items that passed in `baseline` and fail now."""
    baseline: str | None = None
    """The run that `max_regressions` and `min_pass_rate` compare with. Default: the run in `no_new_failures_vs`."""
    max_error_rate: float | None = Field(default=None, ge=0, le=1)
    """Maximum share of trials with an error of the target or of a required scorer."""
    min_scored_fraction: float | None = Field(default=None, ge=0, le=1)
    """Minimum share of trials that passed or failed."""
    min_balanced_accuracy: float | None = Field(default=None, ge=0, le=1)
    """For classifiers: minimum balanced accuracy. Balanced accuracy is the mean recall over the expected labels."""
    min_kappa: float | None = Field(default=None, ge=-1, le=1)

    @field_validator("min_pass_rate")
    @classmethod
    def _share(cls, value: float | str | None) -> float | str | None:
        if isinstance(value, str):
            bound = parse_bound(value)
            valid = bound is not None and bound.from_base
        else:
            valid = value is None or 0 <= value <= 1
        if not valid:
            raise ValueError('give a number from 0 to 1, or a text such as "base-0.02"')
        return value

    @property
    def base(self) -> str | None:
        """The baseline of all clauses except `no_new_failures_vs`."""
        return self.baseline or self.no_new_failures_vs

    @property
    def compared(self) -> frozenset[str]:
        """The runs that clauses compare with, by id or name as in the config."""
        by_base = self.max_regressions is not None or isinstance(self.min_pass_rate, str)
        return frozenset(filter(None, (self.no_new_failures_vs, self.base if by_base else None)))


class PromptTarget(Frozen):
    type: Literal["prompt"] = "prompt"
    prompt_id: str
    version: TargetPromptVersion


class ComponentTarget(Frozen):
    type: Literal["component"] = "component"
    deployment_id: str
    """The build that existed when the experiment was created. A run may use another build."""
    component: Component


class JudgeTarget(Frozen):
    """A classifier under test. It judges the evidence in each item."""

    type: Literal["judge"] = "judge"
    judge: str
    """`rules`, `cascade` or `provider/name`."""
    rubric: str
    """`name@version`."""
    cascade: CascadeParts | None = Field(default=None, exclude_if=lambda parts: parts is None)
    """A copy of the cascade's parts, made when the version was created. None for a single judge, and in versions of
    older releases."""


TargetSpec = Annotated[PromptTarget | ComponentTarget | JudgeTarget, Field(discriminator="type")]


class ExperimentConfig(GateConfig):
    """An experiment's `--config`: its gate, and the settings of its runs."""

    repetitions: int = Field(default=1, ge=1, le=100)
    concurrency: int = Field(default=4, ge=1, le=256)
    timeout_s: float = Field(default=300.0, gt=0)
    """Time limit of one trial."""
    split: str | None = Field(default=None, min_length=1)
    """Run only the items of this split."""

    @property
    def tried(self) -> str:
        """Describe the items of a run: `split test`, or `all items`."""
        return "all items" if self.split is None else f"split {self.split}"


class Experiment(Frozen):
    id: str
    """`exp-…`"""
    name: str
    """Unique; commands accept it in place of the id."""
    type: Literal["standard", "regression", "classifier"] = "standard"
    status: Literal["active", "archived"] = "active"
    collection_id: str
    """Id of the collection in which the experiment's runs are archived."""
    latest_version_id: str
    created_at: str


class ExperimentVersion(Frozen):
    """A definition that runs execute. The id is a content id, so equal definitions are one version."""

    id: str
    """`exv-…`"""
    experiment_id: str
    number: int
    """From 1."""
    target: TargetSpec
    dataset_id: str
    dataset_version_id: str
    bindings: tuple[Binding, ...]
    config: ExperimentConfig
    created_at: str

    @staticmethod
    def id_of(
        experiment_id: str,
        target: TargetSpec,
        dataset_version_id: str,
        bindings: tuple[Binding, ...],
        config: ExperimentConfig,
    ) -> str:
        return short_id("exv", [experiment_id, target, dataset_version_id, bindings, config])


RunState = Literal["queued", "running", "completed", "failed", "cancelled"]
ENDED_STATES: tuple[RunState, ...] = ("completed", "failed", "cancelled")


class ExperimentRun(Frozen):
    """One execution of an experiment version. Its evals are archived as a `run.Run` with the same id."""

    id: str
    """20 hex digits; also the id of the archived run."""
    experiment_id: str
    experiment_version_id: str
    dataset_version_id: str
    deployment_id: str | None = None
    """The build that the run used; None if the target is not a component."""
    name: str | None = None
    """A name such as `pr-1234`. Commands accept it in place of the id. The store adds a suffix if the name is taken."""
    state: RunState = "queued"
    reason: str | None = None
    """Why the run failed or was cancelled."""
    repetitions: int = 1
    concurrency: int = 4
    budget_usd: float | None = None
    items: int
    """Number of dataset items. The run has `items * repetitions` trials."""
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    heartbeat_at: str | None = None
    worker: str | None = None
    """`host:pid` of the process that executes the run."""
    cancelling: bool = False
    """Whether cancellation was requested."""
    archived: bool = False
    """Whether the archived evals match the current scores."""
    revision: int = 0
    """A number that changes whenever an ended run is resumed or scored again, because its results can then differ."""

    @property
    def tries(self) -> int:
        return self.items * self.repetitions

    @property
    def terminal(self) -> bool:
        return self.state in ENDED_STATES


ItemVerdict = Literal["passed", "failed", "error", "unscored"]
"""`error`: the target gave no answer. `unscored`: no required scorer failed the item, but one broke or abstained."""


class RunItem(Frozen):
    """One finished trial of an item."""

    id: str
    """`item-…`, derived from run, item and repetition."""
    run_id: str
    item_key: str
    repetition: int
    """From 1."""
    number: int
    """The item's position in the dataset version, from 0."""
    status: Literal["ok"] | TargetFailureKind
    verdict: ItemVerdict
    error: str | None = None
    """Why the target gave no answer."""
    duration_ms: float = 0.0
    usage: Usage | None = None
    model: str | None = None
    created_at: str

    @staticmethod
    def id_of(run_id: str, item_key: str, repetition: int) -> str:
        return short_id("item", [run_id, item_key, repetition])


class ItemTrial(Frozen):
    """A trial with everything that its target returned."""

    item: RunItem
    output: JsonValue = None
    transcript: Transcript | None = None
    state: dict[str, JsonValue] = Field(default_factory=dict)
    log: str = ""


class PassRate(Frozen):
    """The share of trials that passed, with its 95 % interval.

    Trials of one item or cluster count as one observation.
    """

    passed: int
    of: int
    value: float | None
    """None without trials."""
    low: float = 0.0
    high: float = 1.0

    @property
    def text(self) -> str:
        """Format the rate: `18/20 = 90.0 % (95 %: 69.9 to 97.2 %)`."""
        if self.value is None:
            return "0/0"
        ends = f"{100 * self.low:.1f} to {100 * self.high:.1f} %"
        return f"{self.passed:,}/{self.of:,} = {percent(self.value)} (95 %: {ends})"


class TrialCounts(Frozen):
    """Numbers of trials by verdict."""

    passed: int = 0
    failed: int = 0
    error: int = 0
    """Trials in which the target gave no answer."""
    unscored: int = 0
    """Trials that no required scorer failed, but on which one broke or abstained."""
    missing: int = 0
    """Trials that never started, because the run ended first."""


class TrialErrors(Frozen):
    """Trials whose target gave no answer for the same reason."""

    reason: str
    """The shared reason: `raised NameError (agent.py:5)`, or `gave no answer: exit code 1`."""
    trials: int


class SplitSummary(Frozen):
    split: str
    items: int
    counts: TrialCounts
    pass_rate: PassRate


class ScorerSummary(Frozen):
    """Results of one scorer over the whole run."""

    scorer: str
    scorer_version_id: str
    required: bool = True
    scored: int = 0
    """Number of trials to which the scorer gave a value or a verdict."""
    unscored: int = 0
    """Number of trials on which the scorer abstained."""
    errors: dict[str, int] = Field(default_factory=dict)
    """Number of trials on which the scorer broke, by type of error."""
    mean: float | None = None
    """Mean of the scorer's values, from 0 to 1."""
    pass_rate: PassRate
    """Pass rate over the scored trials."""
    cost_usd: float = 0.0


class PassAtK(Frozen):
    """pass@k and pass^k over items with at least `k` trials.

    A trial without an answer or score counts as not passed.
    """

    k: int
    items: int
    pass_at: float
    """pass@k: the chance that at least one of `k` trials of an item passes."""
    pass_hat: float
    """pass^k: the chance that all of `k` trials of an item pass."""


class LabelRow(Frozen):
    """One expected label: the number of items that expect it, and how many of them got each label."""

    label: str
    expected: int
    predicted: dict[str, int]
    recall: float | None = None
    precision: float | None = None


class LabelSummary(Frozen):
    """Comparison of the labels that a target gave with the expected labels. A missing label counts as disagreement."""

    pairs: int
    judged: int
    """Number of items to which the target gave a label."""
    agreement: float | None = None
    balanced_accuracy: float | None = None
    """Mean recall over the expected labels."""
    kappa: float | None = None
    kappa_low: float | None = None
    kappa_high: float | None = None
    rows: tuple[LabelRow, ...] = ()


class RunSummary(Frozen):
    run_id: str
    name: str | None = None
    experiment_id: str
    experiment: str
    experiment_version_id: str
    version: int
    """Number of the experiment's version."""
    dataset_version_id: str
    dataset: str = ""
    """`name@number`, or `name@number:split`."""
    deployment_id: str | None = None
    target: str = ""
    """Short description of the target."""
    state: RunState
    reason: str | None = None
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    items: int
    repetitions: int
    tries: int
    counts: TrialCounts
    errors: tuple[TrialErrors, ...] = ()
    """Reasons why targets gave no answer, most frequent first."""
    broken: int = 0
    """Number of unscored trials in which a required scorer broke. In the other unscored trials, a scorer abstained."""
    pass_rate: PassRate
    """Mean over all items of the share of passed trials. Errors, unscored and missing trials count as not passed."""
    rate_of_scored: float | None = None
    """Share of passed trials among those that passed or failed."""
    failed_items: int = 0
    """Number of items with at least one trial that did not pass."""
    flaky: tuple[str, ...] = ()
    """Keys of items that passed in some trials only."""
    observations: int = 0
    """Number of observations behind the interval: trials or, if items or clusters have several trials, items or
    clusters."""
    at_k: tuple[PassAtK, ...] = ()
    """Values for every k up to the number of repetitions; empty for a single repetition."""
    scorers: tuple[ScorerSummary, ...] = ()
    splits: tuple[SplitSummary, ...] = ()
    """Summary of each split; empty unless there are several."""
    cost_usd: float = 0.0
    """Cost of the trials and of all scores, including superseded ones."""
    input_tokens: int = 0
    output_tokens: int = 0
    """Tokens of the trials, if the target reports them."""
    duration_p50_ms: float | None = None
    duration_p95_ms: float | None = None
    labels: LabelSummary | None = None
    """None unless the experiment's target gives labels."""

    @property
    def label(self) -> str:
        """Name and short id, such as `pr-1234 (1a2b3c4d…)`, or the id."""
        return f"{self.name} ({self.run_id})" if self.name else self.run_id


class RunReport(Frozen):
    """A run with its summary, and its gate once it has ended."""

    summary: RunSummary
    gate: Gate | None = None


TrialOutcome = Literal["passed", "failed", "error", "unscored", "missing"]


class TrialDetail(Frozen):
    """One trial of an item, with everything that commands show about it."""

    item_key: str
    repetition: int
    """From 1."""
    run_item_id: str | None = None
    """None if the trial was never run."""
    split: str | None = None
    verdict: TrialOutcome
    error: str | None = None
    """Why the target gave no answer."""
    input: JsonValue = None
    expected_output: JsonValue = None
    output: JsonValue = None
    log: str = ""
    """Output and then traceback of a trial without an answer."""
    duration_ms: float | None = None
    usage: Usage | None = None
    model: str | None = None
    scores: tuple[Score, ...] = ()
    """Scores in the order of the scorers."""


def percent(share: float) -> str:
    """Format a share: `90.0 %`. Only exact shares of 0 and 1 become `0.0 %` and `100.0 %`."""
    shown = f"{100 * share:.1f}"
    if shown == "100.0" and share < 1:
        return "over 99.9 %"
    return "under 0.1 %" if shown == "0.0" and share > 0 else f"{shown} %"
