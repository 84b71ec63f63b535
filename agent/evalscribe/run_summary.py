"""What a run of an experiment came to: how much passed, how sure that is, and what each scorer said."""

from typing import Literal

from pydantic import Field, JsonValue

from evalscribe.chat import Usage
from evalscribe.experiment import RunState
from evalscribe.gate import Gate
from evalscribe.ids import Frozen
from evalscribe.score import Score


class Share(Frozen):
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


class Counts(Frozen):
    """Tries by their verdict."""

    passed: int = 0
    failed: int = 0
    error: int = 0
    """The target gave no answer."""
    unscored: int = 0
    """A required scorer broke or abstained, and no other one failed it."""
    missing: int = 0
    """Never tried: the run ended before."""


class SplitSummary(Frozen):
    split: str
    items: int
    counts: Counts
    pass_rate: Share


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
    pass_rate: Share
    """Of what it scored."""
    cost_usd: float = 0.0


class AtK(Frozen):
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
    counts: Counts
    broken: int = 0
    """Unscored tries of which a required scorer broke; of the others it abstained."""
    pass_rate: Share
    """The mean over all items of the share of their tries that passed, of errors, unscored and missing ones too."""
    rate_of_scored: float | None = None
    """Passed tries among those that passed or failed."""
    failed_items: int = 0
    """Items of which not every try passed."""
    flaky: tuple[str, ...] = ()
    """Keys of items of which some tries passed and some did not."""
    observations: int = 0
    """What the interval counts: tries, or items or clusters where these have several tries."""
    at_k: tuple[AtK, ...] = ()
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


Outcome = Literal["passed", "failed", "error", "unscored", "missing"]


class ToldTry(Frozen):
    """One try at an item with all that a person or program reads of it."""

    item_key: str
    repetition: int
    """From 1."""
    run_item_id: str | None = None
    """None where it was never tried."""
    split: str | None = None
    verdict: Outcome
    error: str | None = None
    """Why there is no answer."""
    input: JsonValue = None
    expected_output: JsonValue = None
    output: JsonValue = None
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
