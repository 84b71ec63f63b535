"""Define experiments, with their runs, gates and summaries."""

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
"""Verdict on a clause. `inconclusive` means that the clause cannot be evaluated, because the baseline is not comparable
or nothing was scored. The gate then fails."""


RULE = "an item passes if its target answered and every required scorer passed it"
"""Description of the rule that `evaluate.verdict` applies. It is printed beside every verdict."""


class Clause(Frozen):
    """One condition of a gate, with the observed value."""

    name: ClauseName
    threshold: float | str
    """The required value. For the clause `no_new_failures_vs`, this is the run id of the baseline."""
    observed: float | None = None
    verdict: ClauseVerdict
    low: float | None = None
    high: float | None = None
    """Upper bound of the 95 % confidence interval if `observed` is a share. `low` is the lower bound."""
    said: str
    """Summary of the clause in one line, such as `pass rate 18/20 = 90.0 % (95 %: 69.9 to 97.2 %), at least 95 %
    needed`."""
    luck: str | None = None
    """For a bound on the pass rate, one line that explains how much the pass rate of a run of this size varies by
    chance."""
    items: tuple[str, ...] = ()
    """Keys of the items that decided the clause, such as new failures or regressions."""


class Gate(Frozen):
    """The gate's decision on a finished run."""

    run_id: str
    passed: bool
    clauses: tuple[Clause, ...]
    """The evaluated clauses. If the config has no clauses, the only clause is `passed_threshold` with the value 1."""
    scores_digest: str
    """Content id of the scores that the gate used. The id changes if the run is scored again."""
    stated: bool = True
    """False if the experiment defines no clauses. The default clause then applies."""
    reason: str | None = None
    """The reason why the gate fails whatever its clauses say: the run failed or was cancelled. None if the run
    completed."""


class Bound(NamedTuple):
    """A bound on a share. The bound is absolute or relative to the baseline's share."""

    number: float
    from_base: bool
    """Whether the bound is the baseline's share plus `number`. If not, the bound is `number`."""


_BOUND = re.compile(r"\s*(base)?\s*([+-]?\s*\d*\.?\d+)?\s*(%)?\s*", re.ASCII)


def parse_bound(text: str) -> Bound | None:
    """Parse a bound, such as `0.8`, `80 %` or `base-0.02`. Return None if the text is not a bound."""
    match = _BOUND.fullmatch(text)
    # All parts of the pattern are optional, so it also matches an empty text.
    if match is None or not (match[1] or match[2]):
        return None
    return Bound(float((match[2] or "0").replace(" ", "")) / (100 if match[3] else 1), bool(match[1]))


PREVIOUS = "previous"
"""Special name of a baseline. It stands for the latest earlier run."""


class GateConfig(Frozen):
    """The part of an experiment's `config` that defines the gate. All shares are numbers from 0 to 1, both included."""

    passed_threshold: float | None = Field(default=None, ge=0, le=1)
    """Minimum pass rate; another name for `min_pass_rate`."""
    min_pass_rate: float | str | None = None
    """Minimum pass rate: a share from 0 to 1, or a share relative to the pass rate of `baseline`, such as `base` or
    `base-0.02`."""
    max_failed_items: int | None = Field(default=None, ge=0)
    min_pass_rate_lower_bound: float | None = Field(default=None, ge=0, le=1)
    """Minimum of the lower bound of the pass rate's 95 % confidence interval."""
    no_new_failures_vs: str | None = None
    """Id or name of a run, or `previous`. Items that passed in this earlier run must not fail now."""
    max_regressions: int | None = Field(default=None, ge=0)
    """Maximum number of items that passed in the run `baseline` and fail now."""
    baseline: str | None = None
    """The run with which `max_regressions` and `min_pass_rate` compare. Default: the run in `no_new_failures_vs`."""
    max_error_rate: float | None = Field(default=None, ge=0, le=1)
    """Maximum share of trials in which the target or a required scorer had an error."""
    min_scored_fraction: float | None = Field(default=None, ge=0, le=1)
    """Minimum share of trials with the verdict passed or failed."""
    min_balanced_accuracy: float | None = Field(default=None, ge=0, le=1)
    """For classifiers: minimum balanced accuracy. Balanced accuracy is the mean of the recall of each expected label.
    """
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
        """Ids or names of the runs with which the clauses compare, as written in the config."""
        by_base = self.max_regressions is not None or isinstance(self.min_pass_rate, str)
        return frozenset(filter(None, (self.no_new_failures_vs, self.base if by_base else None)))


class PromptTarget(Frozen):
    type: Literal["prompt"] = "prompt"
    prompt_id: str
    version: TargetPromptVersion


class ComponentTarget(Frozen):
    type: Literal["component"] = "component"
    deployment_id: str
    """Id of the build that existed when the experiment was created. A run may use another build."""
    component: Component


class JudgeTarget(Frozen):
    """A classifier under test. It judges the evidence in each item."""

    type: Literal["judge"] = "judge"
    judge: str
    """The judge under test: `rules`, `cascade` or `provider/name`."""
    rubric: str
    """The rubric that the judge applies, as `name@version`."""
    cascade: CascadeParts | None = Field(default=None, exclude_if=lambda parts: parts is None)
    """A copy of the cascade's parts, made when the experiment version was created. It is None if the judge is not a
    cascade, or if an older release created the version."""


TargetSpec = Annotated[PromptTarget | ComponentTarget | JudgeTarget, Field(discriminator="type")]


class ExperimentConfig(GateConfig):
    """An experiment's configuration (`--config`): the gate of the experiment and the settings of its runs."""

    repetitions: int = Field(default=1, ge=1, le=100)
    concurrency: int = Field(default=4, ge=1, le=256)
    timeout_s: float = Field(default=300.0, gt=0)
    """Time limit of one trial, in seconds."""
    split: str | None = Field(default=None, min_length=1)
    """The split whose items are run; None to run all items."""

    @property
    def tried(self) -> str:
        """Describe which items a run uses: `all items`, or a split such as `split test`."""
        return "all items" if self.split is None else f"split {self.split}"


class Experiment(Frozen):
    id: str
    """Id of the experiment, in the form `exp-…`."""
    name: str
    """Unique name of the experiment. Commands accept the name in place of the id."""
    type: Literal["standard", "regression", "classifier"] = "standard"
    status: Literal["active", "archived"] = "active"
    collection_id: str
    """Id of the collection in which the experiment's runs are archived."""
    latest_version_id: str
    created_at: str


class ExperimentVersion(Frozen):
    """One version of an experiment's definition. A run executes one version.

    The id is a content id, so equal definitions are the same version.
    """

    id: str
    """Id of the version, in the form `exv-…`."""
    experiment_id: str
    number: int
    """Number of the version in its experiment, from 1."""
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
    """One execution of an experiment version.

    The evals of the execution are archived as a `run.Run` with the same id.
    """

    id: str
    """Id of the run: 20 hex digits. The archived run has the same id."""
    experiment_id: str
    experiment_version_id: str
    dataset_version_id: str
    deployment_id: str | None = None
    """Id of the build that the run used; None if the target is not a component."""
    name: str | None = None
    """Name of the run, such as `pr-1234`. Commands accept the name in place of the id. If another run has this name,
    the store adds a suffix."""
    state: RunState = "queued"
    reason: str | None = None
    """The reason why the run failed or was cancelled."""
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
    """Whether the evals of the archived run match the current scores."""
    revision: int = 0
    """A number that increases whenever a run that has ended is resumed or scored again. A higher number means that the
    results might have changed."""

    @property
    def tries(self) -> int:
        return self.items * self.repetitions

    @property
    def terminal(self) -> bool:
        return self.state in ENDED_STATES


ItemVerdict = Literal["passed", "failed", "error", "unscored"]
"""Verdict on a trial of an item. `error`: the target gave no answer. `unscored`: no required scorer failed the item,
but a required scorer broke or abstained."""


class RunItem(Frozen):
    """One finished trial of an item."""

    id: str
    """Id of the form `item-…`, derived from the run, the item and the repetition."""
    run_id: str
    item_key: str
    repetition: int
    """Number of the repetition of the item, from 1."""
    number: int
    """Position of the item in the dataset version, from 0."""
    status: Literal["ok"] | TargetFailureKind
    verdict: ItemVerdict
    error: str | None = None
    """The reason why the target gave no answer."""
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
    """The share of trials that passed, with a 95 % confidence interval.

    For the interval, all trials of one item or cluster count as one observation.
    """

    passed: int
    of: int
    value: float | None
    """The share as a number; None if there are no trials."""
    low: float = 0.0
    high: float = 1.0

    @property
    def text(self) -> str:
        """Format the pass rate with its counts and its 95 % confidence interval, such as `18/20 = 90.0 % (95 %: 69.9 to
        97.2 %)`."""
        if self.value is None:
            return "0/0"
        ends = f"{100 * self.low:.1f} to {100 * self.high:.1f} %"
        return f"{self.passed:,}/{self.of:,} = {percent(self.value)} (95 %: {ends})"


class TrialCounts(Frozen):
    """Number of trials by verdict."""

    passed: int = 0
    failed: int = 0
    error: int = 0
    """Number of trials in which the target gave no answer."""
    unscored: int = 0
    """Number of trials that no required scorer failed, but on which a required scorer broke or abstained."""
    missing: int = 0
    """Number of trials that never started because the run ended earlier."""


class TrialErrors(Frozen):
    """Trials in which the target gave no answer, all for the same reason."""

    reason: str
    """The reason, such as `raised NameError (agent.py:5)` or `gave no answer: exit code 1`."""
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
    """pass@k and pass^k over the items with at least `k` trials.

    A trial without an answer or without a score counts as not passed.
    """

    k: int
    items: int
    pass_at: float
    """pass@k: the probability that at least one of `k` trials of an item passes."""
    pass_hat: float
    """pass^k: the probability that all of `k` trials of an item pass."""


class LabelRow(Frozen):
    """One expected label: the number of items with this expected label, and how many of these items got each label."""

    label: str
    expected: int
    predicted: dict[str, int]
    recall: float | None = None
    precision: float | None = None


class LabelSummary(Frozen):
    """Comparison of the labels that a target gave with the expected labels. A missing label counts as a wrong label."""

    pairs: int
    judged: int
    """Number of items to which the target gave a label."""
    agreement: float | None = None
    balanced_accuracy: float | None = None
    """Balanced accuracy: the mean of the recall of each expected label."""
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
    """The dataset version, as `name@number`, or `name@number:split` if only a split was run."""
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
    """Share of passed trials of each item, averaged over all items. Trials with an error, unscored trials and missing
    trials count as not passed."""
    rate_of_scored: float | None = None
    """Share of passed trials among those that passed or failed."""
    failed_items: int = 0
    """Number of items with at least one trial that did not pass."""
    flaky: tuple[str, ...] = ()
    """Keys of items that passed in some but not all of their trials."""
    observations: int = 0
    """Number of observations on which the interval is based. If items or clusters have several
    trials, each item or cluster is one observation. Otherwise, each trial is one observation."""
    at_k: tuple[PassAtK, ...] = ()
    """pass@k and pass^k for every k up to the number of repetitions; empty if there is only one repetition."""
    scorers: tuple[ScorerSummary, ...] = ()
    splits: tuple[SplitSummary, ...] = ()
    """Summary of each split; empty unless the run has items of several splits."""
    cost_usd: float = 0.0
    """Cost in USD of all trials and scores, including superseded scores."""
    input_tokens: int = 0
    output_tokens: int = 0
    """Output tokens of all trials, if the target reports tokens."""
    duration_p50_ms: float | None = None
    duration_p95_ms: float | None = None
    labels: LabelSummary | None = None
    """Comparison with the expected labels; None if the target does not give labels."""

    @property
    def label(self) -> str:
        """Name and id of the run, such as `pr-1234 (1a2b3c4d…)`. A run without a name has only its id."""
        return f"{self.name} ({self.run_id})" if self.name else self.run_id


class RunReport(Frozen):
    """A run with its summary and, once the run has ended, with its gate."""

    summary: RunSummary
    gate: Gate | None = None


TrialOutcome = Literal["passed", "failed", "error", "unscored", "missing"]


class TrialDetail(Frozen):
    """One trial of an item, with everything that commands show about it."""

    item_key: str
    repetition: int
    """Number of the repetition of the item, from 1."""
    run_item_id: str | None = None
    """Id of the run item; None if the trial was never run."""
    split: str | None = None
    verdict: TrialOutcome
    error: str | None = None
    """The reason why the target gave no answer."""
    input: JsonValue = None
    expected_output: JsonValue = None
    output: JsonValue = None
    log: str = ""
    """Output of a trial without an answer, followed by the traceback."""
    duration_ms: float | None = None
    usage: Usage | None = None
    model: str | None = None
    scores: tuple[Score, ...] = ()
    """Scores in the order of the scorers."""


def percent(share: float) -> str:
    """Format a share as a percentage, such as `90.0 %`.

    Only a share of exactly 0 becomes `0.0 %`, and only a share of exactly 1 becomes `100.0 %`. Other
    shares that would round to these values become `under 0.1 %` or `over 99.9 %`.
    """
    shown = f"{100 * share:.1f}"
    if shown == "100.0" and share < 1:
        return "over 99.9 %"
    return "under 0.1 %" if shown == "0.0" and share > 0 else f"{shown} %"
