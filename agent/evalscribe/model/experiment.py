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
"""`inconclusive`: it could not be decided (its baseline is not comparable, nothing was scored): then the gate fails."""


RULE = "an item passes if its target answered and every required scorer passed it"
"""What `evaluate.verdict` decides by, printed beside every verdict."""


class Clause(Frozen):
    """One condition and what was seen."""

    name: ClauseName
    threshold: float | str
    """A baseline's run id for `no_new_failures_vs`."""
    observed: float | None = None
    verdict: ClauseVerdict
    low: float | None = None
    high: float | None = None
    """95 % interval of `observed`, where it is a share."""
    said: str
    """One line: `pass rate 18/20 = 90.0 % (95 %: 69.9 to 97.2 %), at least 95 % needed`."""
    luck: str | None = None
    """Beside a bound of the pass rate: what a run of this size can tell, in one line."""
    items: tuple[str, ...] = ()
    """Keys of the items that it is about: new failures, regressions."""


class Gate(Frozen):
    """The verdict on a finished run."""

    run_id: str
    passed: bool
    clauses: tuple[Clause, ...]
    """At least one: without any in the config, `passed_threshold` 1."""
    scores_digest: str
    """Content id of the scores that it rests on: after a rescore it is another one."""
    stated: bool = True
    """False where the experiment states no clause, so that the default holds."""
    reason: str | None = None
    """Why it is not passed whatever its clauses say: the run failed or was cancelled."""


class Bound(NamedTuple):
    """A bound of a share."""

    number: float
    from_base: bool
    """Whether the number is added to the base's share."""


_BOUND = re.compile(r"\s*(base)?\s*([+-]?\s*\d*\.?\d+)?\s*(%)?\s*", re.ASCII)


def parse_bound(text: str) -> Bound | None:
    """Parse a bound, such as `0.8`, `80 %` or `base-0.02`; None if the text is none."""
    match = _BOUND.fullmatch(text)
    if match is None or not (match[1] or match[2]):
        return None
    return Bound(float((match[2] or "0").replace(" ", "")) / (100 if match[3] else 1), bool(match[1]))


PREVIOUS = "previous"
"""The name of a baseline that stands for the latest earlier run."""


class GateConfig(Frozen):
    """What an experiment's `config` may hold of a gate; shares are from 0 to 1 and their bounds included."""

    passed_threshold: float | None = Field(default=None, ge=0, le=1)
    """The pass rate must be at least this; the same as `min_pass_rate`."""
    min_pass_rate: float | str | None = None
    """A share, or one from that of `baseline`: `base`, `base-0.02`."""
    max_failed_items: int | None = Field(default=None, ge=0)
    min_pass_rate_lower_bound: float | None = Field(default=None, ge=0, le=1)
    """The lower end of the pass rate's 95 % interval must be at least this."""
    no_new_failures_vs: str | None = None
    """A run's id or name, or `previous`: no item that it passed may fail now."""
    max_regressions: int | None = Field(default=None, ge=0)
    """At most so many items that passed in `baseline` may fail now."""
    baseline: str | None = None
    """The run that `max_regressions` and `min_pass_rate` compare with; by default that of `no_new_failures_vs`."""
    max_error_rate: float | None = Field(default=None, ge=0, le=1)
    """Of all tries, errors of the target or of a required scorer."""
    min_scored_fraction: float | None = Field(default=None, ge=0, le=1)
    """Of all tries, those that have a verdict."""
    min_balanced_accuracy: float | None = Field(default=None, ge=0, le=1)
    """Of labels: the mean recall over the labels that are expected."""
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
        """The run that all but `no_new_failures_vs` compare with."""
        return self.baseline or self.no_new_failures_vs

    @property
    def compared(self) -> frozenset[str]:
        """The runs that clauses compare with, as they are named."""
        by_base = self.max_regressions is not None or isinstance(self.min_pass_rate, str)
        return frozenset(filter(None, (self.no_new_failures_vs, self.base if by_base else None)))


class PromptTarget(Frozen):
    type: Literal["prompt"] = "prompt"
    prompt_id: str
    version: TargetPromptVersion


class ComponentTarget(Frozen):
    type: Literal["component"] = "component"
    deployment_id: str
    """The build that it was made with; a run may name a candidate's."""
    component: Component


class JudgeTarget(Frozen):
    """A classifier under test: it judges the evidence that an item holds."""

    type: Literal["judge"] = "judge"
    judge: str
    """`rules`, `cascade` or `provider/name`."""
    rubric: str
    """`name@version`."""
    cascade: CascadeParts | None = Field(default=None, exclude_if=lambda parts: parts is None)
    """For a cascade: its parts when the version was created; None in older versions without this record."""


TargetSpec = Annotated[PromptTarget | ComponentTarget | JudgeTarget, Field(discriminator="type")]


class ExperimentConfig(GateConfig):
    """What an experiment's `--config` may hold: its gate, and how it runs."""

    repetitions: int = Field(default=1, ge=1, le=100)
    concurrency: int = Field(default=4, ge=1, le=256)
    timeout_s: float = Field(default=300.0, gt=0)
    """Of one try."""
    split: str | None = Field(default=None, min_length=1)
    """Only the items of this split are tried."""

    @property
    def tried(self) -> str:
        """`split test`, or `all items`."""
        return "all items" if self.split is None else f"split {self.split}"


class Experiment(Frozen):
    id: str
    """`exp-…`"""
    name: str
    """Unique; usable wherever its id is."""
    type: Literal["standard", "regression", "classifier"] = "standard"
    status: Literal["active", "archived"] = "active"
    collection_id: str
    """Where its runs are archived."""
    latest_version_id: str
    created_at: str


class ExperimentVersion(Frozen):
    """What was tried. Its id is its content: an equal definition is the same version."""

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
    """One execution of a version. Its evals are archived under the same id as a `run.Run`."""

    id: str
    """20 hex digits: the run's id everywhere else too."""
    experiment_id: str
    experiment_version_id: str
    dataset_version_id: str
    deployment_id: str | None = None
    """The build that ran; None for targets that are no components."""
    name: str | None = None
    """A label such as `pr-1234`, usable wherever the id is. The store makes it unique by a suffix."""
    state: RunState = "queued"
    reason: str | None = None
    """Why it failed or was cancelled."""
    repetitions: int = 1
    concurrency: int = 4
    budget_usd: float | None = None
    items: int
    """Items of the dataset version that it tries; tries are `items * repetitions`."""
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    heartbeat_at: str | None = None
    worker: str | None = None
    """`host:pid` of the process that does the work."""
    cancelling: bool = False
    """Whether somebody asked for it to be cancelled."""
    archived: bool = False
    """Whether its evals are in the archive as its scores have them now."""
    revision: int = 0
    """Another one whenever its tries or scores may have changed since it ended: it went on, or was scored again."""

    @property
    def tries(self) -> int:
        return self.items * self.repetitions

    @property
    def terminal(self) -> bool:
        return self.state in ENDED_STATES


ItemVerdict = Literal["passed", "failed", "error", "unscored"]
"""`error`: the target gave no answer; `unscored`: a required scorer broke or abstained, and no other failed it."""


class RunItem(Frozen):
    """One try at one item, done."""

    id: str
    """`item-…`, named by run, item and repetition."""
    run_id: str
    item_key: str
    repetition: int
    """From 1."""
    number: int
    """The item's place in the dataset version, from 0."""
    status: Literal["ok"] | TargetFailureKind
    verdict: ItemVerdict
    error: str | None = None
    """Why there is no answer."""
    duration_ms: float = 0.0
    usage: Usage | None = None
    model: str | None = None
    created_at: str

    @staticmethod
    def id_of(run_id: str, item_key: str, repetition: int) -> str:
        return short_id("item", [run_id, item_key, repetition])


class ItemTrial(Frozen):
    """A run item with all that its target gave."""

    item: RunItem
    output: JsonValue = None
    transcript: Transcript | None = None
    state: dict[str, JsonValue] = Field(default_factory=dict)
    log: str = ""


class PassRate(Frozen):
    """A share of tries with its 95 % interval; tries of one item or cluster are one observation."""

    passed: int
    of: int
    value: float | None
    """None where nothing was tried."""
    low: float = 0.0
    high: float = 1.0

    @property
    def said(self) -> str:
        """`18/20 = 90.0 % (95 %: 69.9 to 97.2 %)`"""
        if self.value is None:
            return "0/0"
        ends = f"{100 * self.low:.1f} to {100 * self.high:.1f} %"
        return f"{self.passed:,}/{self.of:,} = {percent(self.value)} (95 %: {ends})"


class TrialCounts(Frozen):
    """Tries by their verdict."""

    passed: int = 0
    failed: int = 0
    error: int = 0
    """The target gave no answer."""
    unscored: int = 0
    """A required scorer broke or abstained, and no other one failed it."""
    missing: int = 0
    """Never tried: the run ended before."""


class TrialErrors(Frozen):
    """Trials whose target gave no answer for the same reason."""

    reason: str
    """What they did: `raised NameError (agent.py:5)`, or `gave no answer: exit code 1`."""
    trials: int


class SplitSummary(Frozen):
    split: str
    items: int
    counts: TrialCounts
    pass_rate: PassRate


class ScorerSummary(Frozen):
    """What one scorer said over the whole run."""

    scorer: str
    scorer_version_id: str
    required: bool = True
    scored: int = 0
    """Tries that it gave a value or a verdict."""
    unscored: int = 0
    """Tries of which it abstained."""
    errors: dict[str, int] = Field(default_factory=dict)
    """How often it broke, by the type of error."""
    mean: float | None = None
    """Of its values, from 0 to 1."""
    pass_rate: PassRate
    """Of what it scored."""
    cost_usd: float = 0.0


class PassAtK(Frozen):
    """Over items with at least `k` tries; a try without answer or score did not pass."""

    k: int
    items: int
    pass_at: float
    """pass@k: the chance that at least one of `k` tries of an item passes."""
    pass_hat: float
    """pass^k: the chance that `k` tries of an item all pass."""


class LabelRow(Frozen):
    """One expected label: how often it was expected, and how often each label was given."""

    label: str
    expected: int
    given: dict[str, int]
    recall: float | None = None
    precision: float | None = None


class LabelSummary(Frozen):
    """Labels that were given beside those that were expected; where none was given, that agrees with nothing."""

    pairs: int
    judged: int
    """Pairs of which a label was given."""
    agreement: float | None = None
    balanced_accuracy: float | None = None
    """The mean recall over the labels that are expected."""
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
    """What was tried, in a word or two."""
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
    """Why targets gave no answer, the most frequent reasons first."""
    broken: int = 0
    """Unscored tries of which a required scorer broke; of the others it abstained."""
    pass_rate: PassRate
    """The mean over all items of the share of their tries that passed, of errors, unscored and missing ones too."""
    rate_of_scored: float | None = None
    """Passed tries among those that passed or failed."""
    failed_items: int = 0
    """Items of which not every try passed."""
    flaky: tuple[str, ...] = ()
    """Keys of items of which some tries passed and some did not."""
    observations: int = 0
    """What the interval counts: tries, or items or clusters where these have several tries."""
    at_k: tuple[PassAtK, ...] = ()
    """For every k up to the repetitions; empty where there is one."""
    scorers: tuple[ScorerSummary, ...] = ()
    splits: tuple[SplitSummary, ...] = ()
    """Where there are several."""
    cost_usd: float = 0.0
    """Of its tries and of all scores, superseded ones too."""
    input_tokens: int = 0
    output_tokens: int = 0
    """Of its tries, where the target says."""
    duration_p50_ms: float | None = None
    duration_p95_ms: float | None = None
    labels: LabelSummary | None = None
    """Of experiments whose target gives labels."""

    @property
    def label(self) -> str:
        """`pr-1234 (1a2b3c4d…)`, or the id."""
        return f"{self.name} ({self.run_id})" if self.name else self.run_id


class RunReport(Frozen):
    """A run as it is told: what it came to, and its gate where it has ended."""

    summary: RunSummary
    gate: Gate | None = None


TrialOutcome = Literal["passed", "failed", "error", "unscored", "missing"]


class TrialDetail(Frozen):
    """One try at an item with all that a person or program reads of it."""

    item_key: str
    repetition: int
    """From 1."""
    run_item_id: str | None = None
    """None where it was never tried."""
    split: str | None = None
    verdict: TrialOutcome
    error: str | None = None
    """Why there is no answer."""
    input: JsonValue = None
    expected_output: JsonValue = None
    output: JsonValue = None
    log: str = ""
    """Of a try without an answer: its traceback, after what it printed."""
    duration_ms: float | None = None
    usage: Usage | None = None
    model: str | None = None
    scores: tuple[Score, ...] = ()
    """In the order of the scorers."""


def percent(share: float) -> str:
    """`90.0 %`; neither 0 nor 100 where it is not exactly that."""
    shown = f"{100 * share:.1f}"
    if shown == "100.0" and share < 1:
        return "over 99.9 %"
    return "under 0.1 %" if shown == "0.0" and share > 0 else f"{shown} %"
