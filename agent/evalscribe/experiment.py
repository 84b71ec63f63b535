"""Experiments: a target, a version of a dataset and scorers, in versions that never change; and their runs."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from evalscribe.agent_run import Transcript
from evalscribe.cascade import CascadeParts
from evalscribe.chat import Usage
from evalscribe.dataset import short_id
from evalscribe.deployment import Component
from evalscribe.gate import GateConfig
from evalscribe.ids import Frozen
from evalscribe.scorer_spec import Binding
from evalscribe.target import FailureKind
from evalscribe.target_prompt import TargetPromptVersion


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
    """Of a cascade alone: what it was made of when the version was; None in versions from before this was kept."""


Target = Annotated[PromptTarget | ComponentTarget | JudgeTarget, Field(discriminator="type")]


class Config(GateConfig):
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
    target: Target
    dataset_id: str
    dataset_version_id: str
    bindings: tuple[Binding, ...]
    config: Config
    created_at: str

    @staticmethod
    def id_of(
        experiment_id: str, target: Target, dataset_version_id: str, bindings: tuple[Binding, ...], config: Config
    ) -> str:
        return short_id("exv", [experiment_id, target, dataset_version_id, bindings, config])


RunState = Literal["queued", "running", "completed", "failed", "cancelled"]
TERMINAL: tuple[RunState, ...] = ("completed", "failed", "cancelled")


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
    """A label such as `pr-1234`; usable wherever the id is, the newest of that name is meant."""
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
        return self.state in TERMINAL


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
    status: Literal["ok"] | FailureKind
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


class Attempt(Frozen):
    """A run item with all that its target gave."""

    item: RunItem
    output: JsonValue = None
    transcript: Transcript | None = None
    state: dict[str, JsonValue] = Field(default_factory=dict)
    log: str = ""
