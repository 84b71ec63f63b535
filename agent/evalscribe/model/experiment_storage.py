"""Protocols of storage for experiments, and of targets and scorers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from evalscribe.ids import Frozen
from evalscribe.model.dataset import Dataset, DatasetVersion, Item, Provenance
from evalscribe.model.experiment import (
    Experiment,
    ExperimentRun,
    ExperimentVersion,
    ItemTrial,
    ItemVerdict,
    RunItem,
    RunState,
)
from evalscribe.model.score import Score, ScoreEvidence, Scorer, ScoreResult, ScorerRequest
from evalscribe.model.storage import AddedCounts
from evalscribe.model.target import (
    Deployment,
    TargetCall,
    TargetFailure,
    TargetPrompt,
    TargetPromptVersion,
    TargetReply,
)


class Datasets(Protocol):
    """Datasets with their drafts and versions. Whoever is named is named by id or by name."""

    def add(self, dataset: Dataset) -> None:
        """Raises `UsageError` where its name is taken."""

    def find(self, named: str) -> Dataset | None: ...
    def all(self) -> tuple[Dataset, ...]:
        """In the order they were made."""

    def draft(self, dataset_id: str) -> Iterator[Item]:
        """In order, a page in memory at a time."""

    def draft_size(self, dataset_id: str) -> int: ...
    def put(self, dataset_id: str, items: Sequence[Item]) -> AddedCounts:
        """Into the draft: an item whose key is there replaces it in its place, others come at the end. All or none."""

    def drop(self, dataset_id: str, keys: Sequence[str]) -> int:
        """Out of the draft; how many there were."""

    def restore(self, version_id: str) -> None:
        """Make the draft what the version is."""

    def publish(
        self,
        dataset_id: str,
        now: str,
        *,
        description: str = "",
        provenance: Provenance = "published",
        parent_run_id: str | None = None,
    ) -> DatasetVersion:
        """Freeze the draft. Where its content is a version's already, that version is given back.

        Raises `UsageError` for an empty draft.
        """

    def version(self, version_id: str) -> DatasetVersion | None: ...
    def versions(self, dataset_id: str) -> tuple[DatasetVersion, ...]:
        """By number."""

    def items(self, version_id: str) -> Iterator[Item]:
        """In order, a page in memory at a time."""

    def item(self, version_id: str, key: str) -> Item | None: ...
    def close(self) -> None: ...


class Definitions(Protocol):
    """Deployments, prompts, scorers and experiments. Versions are never changed."""

    def add_deployment(self, deployment: Deployment) -> None: ...
    def deployment(self, named: str) -> Deployment | None:
        """By id; by name the newest."""

    def deployments(self) -> tuple[Deployment, ...]:
        """Oldest first."""

    def put_prompt(self, name: str, version: TargetPromptVersion) -> TargetPrompt:
        """Make the prompt where it is missing, with `version.prompt_id` as its id, and this its next version (numbered
        here), unless its latest is the same by id."""

    def prompt(self, named: str) -> TargetPrompt | None:
        """With all its versions."""

    def prompts(self) -> tuple[TargetPrompt, ...]: ...
    def put_scorer(self, scorer: Scorer) -> Scorer:
        """Make it, or give the one of this name a new version; as it is now. `number` is given here."""

    def scorer(self, named: str) -> Scorer | None: ...
    def scorers(self) -> tuple[Scorer, ...]: ...
    def add_experiment(self, experiment: Experiment, version: ExperimentVersion) -> None:
        """With its first version. Raises `UsageError` where its name is taken."""

    def put_version(self, version: ExperimentVersion, *, latest: bool = True) -> ExperimentVersion:
        """Store it as the next version (numbered here) unless it is there, and make it the latest if wanted."""

    def set_status(self, experiment_id: str, status: Literal["active", "archived"]) -> None: ...
    def experiment(self, named: str) -> Experiment | None: ...
    def experiments(self) -> tuple[Experiment, ...]:
        """Oldest first."""

    def experiment_version(self, version_id: str) -> ExperimentVersion | None: ...
    def experiment_versions(self, experiment_id: str) -> tuple[ExperimentVersion, ...]: ...
    def close(self) -> None: ...


class ScoreQuery(Frozen):
    """Which scores; None means any."""

    run_id: str | None = None
    run_item_id: str | None = None
    scorer: str | None = None
    """Name of its binding, or id of the scorer that was created."""
    scorer_version_id: str | None = None
    passed: bool | None = None
    status: str | None = None
    since: str | None = None
    until: str | None = None
    """ISO 8601; `until` is not included."""
    superseded: bool = False
    """Also those that a later one replaced."""


class ExperimentRuns(Protocol):
    """Runs of experiments with their items and scores. Every operation is short and whole."""

    def add(self, run: ExperimentRun) -> None: ...
    def run(self, named: str) -> ExperimentRun | None:
        """By id or the beginning of one (8 characters at least); by name the newest.

        Raises `UsageError` where several ids begin so.
        """

    def runs(self, experiment_id: str | None = None) -> tuple[ExperimentRun, ...]:
        """Oldest first."""

    def claim(self, run_id: str) -> AbstractContextManager[bool]:
        """Whether this process, and no other while it lives, may work on the run."""

    def begin(self, run_id: str, worker: str, now: str) -> ExperimentRun:
        """It is running, by this worker; nobody asks for it to be cancelled any more."""

    def beat(self, run_id: str, now: str) -> bool:
        """Sign of life; whether somebody asked for it to be cancelled.

        Raises `UnavailableError` where the store is gone, or another process has the run by now.
        """

    def end(self, run_id: str, state: RunState, now: str, reason: str | None = None) -> ExperimentRun: ...
    def gate(self, run_id: str, key: str) -> bool | None:
        """The verdict that was kept of a gate that rested on the same; None where there is none."""

    def keep_gate(self, run_id: str, key: str, passed: bool) -> None: ...
    def ask_cancel(self, run_id: str) -> None: ...
    def set_archived(self, run_id: str, archived: bool) -> None: ...
    def set_budget(self, run_id: str, budget_usd: float | None) -> None:
        """For a run that goes on."""

    def put(self, attempt: ItemTrial, scores: Sequence[tuple[Score, ScoreEvidence]]) -> None:
        """One try with its scores, in one transaction; where the same try is stored already, nothing changes."""

    def rescore(
        self, run_id: str, scores: Sequence[tuple[Score, ScoreEvidence]], verdicts: Mapping[str, ItemVerdict]
    ) -> None:
        """Add scores, which supersede those that they name, and set the verdicts of run items by id; in one go."""

    def done(self, run_id: str) -> frozenset[tuple[str, int]]:
        """Item key and repetition of every try that is stored."""

    def tally(self, run_id: str) -> Mapping[ItemVerdict, int]:
        """How many tries have which verdict."""

    def spent(self, run_id: str) -> float:
        """USD of all its tries and scores, superseded ones too."""

    def items(self, run_id: str, verdicts: Sequence[ItemVerdict] = ()) -> Iterator[RunItem]:
        """In the order of the dataset, then by repetition; only those verdicts where some are named."""

    def attempt(self, run_item_id: str) -> ItemTrial | None: ...
    def attempts(self, run_id: str) -> Iterator[ItemTrial]:
        """In the same order, a page in memory at a time."""

    def scores(self, query: ScoreQuery) -> Iterator[Score]:
        """By run, item, repetition, then in the order they were stored."""

    def score(self, score_id: str) -> Score | None: ...
    def evidence(self, score_id: str) -> ScoreEvidence | None: ...
    def scores_digest(self, run_id: str) -> str:
        """Content id of its current scores and verdicts."""

    def close(self) -> None: ...


class Target(Protocol):
    """Something that is tried. What it gives is redacted and clean JSON."""

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        """One try. What concerns this item is a value; raises `EvalscribeError` for what concerns all of them."""

    async def close(self) -> None:
        """End every process that it started, within two seconds."""


class ScorerRunner(Protocol):
    """One bound scorer, ready to score."""

    name: str
    depends_on: tuple[str, ...]

    async def score(self, request: ScorerRequest) -> ScoreResult:
        """What goes wrong is a result of status `error`; raises `EvalscribeError` only for what concerns all items."""

    async def close(self) -> None: ...


class ItemRows(Protocol):
    """A file of items, read once from beginning to end."""

    @property
    def problems(self) -> Sequence[str]:
        """What was wrong with the first lines that gave no item, each with its place; complete at the end."""

    @property
    def bad(self) -> int:
        """How many gave no item."""

    @property
    def hidden(self) -> int:
        """How many secrets were taken out of the items."""

    def read(self) -> Iterator[Item]:
        """Raises `DataError`, `NotFoundError`, `AccessError` for what ends the reading."""
