"""The gate of an experiment: what must hold for a run to pass, and what was seen."""

from typing import Literal

from pydantic import Field

from evalscribe.ids import Frozen

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


class GateConfig(Frozen):
    """What an experiment's `config` may hold of a gate; shares are from 0 to 1 and their bounds included."""

    passed_threshold: float | None = Field(default=None, ge=0, le=1)
    """The pass rate must be at least this; the same as `min_pass_rate`."""
    min_pass_rate: float | None = Field(default=None, ge=0, le=1)
    max_failed_items: int | None = Field(default=None, ge=0)
    min_pass_rate_lower_bound: float | None = Field(default=None, ge=0, le=1)
    """The lower end of the pass rate's 95 % interval must be at least this."""
    no_new_failures_vs: str | None = None
    """A run's id or name: no item that it passed may fail now."""
    max_regressions: int | None = Field(default=None, ge=0)
    """At most so many items that passed in `baseline` may fail now."""
    baseline: str | None = None
    """The run that `max_regressions` compares with; by default that of `no_new_failures_vs`."""
    max_error_rate: float | None = Field(default=None, ge=0, le=1)
    """Of all tries, errors of the target or of a required scorer."""
    min_scored_fraction: float | None = Field(default=None, ge=0, le=1)
    """Of all tries, those that have a verdict."""
    min_balanced_accuracy: float | None = Field(default=None, ge=0, le=1)
    """Of labels: the mean recall over the labels that are expected."""
    min_kappa: float | None = Field(default=None, ge=-1, le=1)
