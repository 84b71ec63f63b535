"""An experiment whose runs have the given trials and scores, stored in the same way as by a worker."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from evalscribe.model.chat import Usage
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.experiment import (
    ComponentTarget,
    Experiment,
    ExperimentConfig,
    ExperimentRun,
    ExperimentVersion,
    ItemTrial,
    ItemVerdict,
    RunItem,
    RunState,
)
from evalscribe.model.score import Binding, Score, ScoreEvidence, ScorerSpec
from evalscribe.model.target import Component
from evalscribe.store.experiment_runs import open_datasets, open_definitions, open_experiment_runs

NOW = "2026-11-20T10:00:00.000+00:00"
EXACT = ScorerSpec(name="exact_match", scorer="exact_match", config={"case_sensitive": True})
JSON = ScorerSpec(name="json_valid", scorer="json_valid")
BINDINGS = (Binding(spec=EXACT), Binding(spec=JSON, required=False))
TARGET = ComponentTarget(deployment_id="dep-1", component=Component(name="agent", kind="python", address="pkg.mod:fn"))
OUTCOMES: dict[str, ItemVerdict] = {"p": "passed", "f": "failed", "e": "error", "u": "unscored"}


class StoredExperiment:
    """An experiment in a store folder. All of its runs use the same items."""

    def __init__(self, store: Path, items: Sequence[Item], name: str = "quality") -> None:
        self.store = store
        self.datasets, self.definitions = open_datasets(store), open_definitions(store)
        self.runs = open_experiment_runs(store)
        self.items = tuple(items)
        if self.datasets.find("ds-1") is None:
            self.fill()
        self.dataset_version = self.datasets.versions("ds-1")[-1]
        self.name = name
        self.number = 0

    def fill(self) -> None:
        """Add the dataset with the items, and publish it."""
        self.datasets.add(Dataset(id="ds-1", name="tickets", created_at=NOW))
        self.datasets.put("ds-1", self.items)
        self.datasets.publish("ds-1", NOW)

    def close(self) -> None:
        for each in (self.datasets, self.definitions, self.runs):
            each.close()

    def version(self, config: ExperimentConfig, bindings: tuple[Binding, ...] = BINDINGS) -> ExperimentVersion:
        """Return a version of the experiment with this configuration, and store it."""
        id = ExperimentVersion.id_of("exp-1", TARGET, self.dataset_version.id, bindings, config)
        version = ExperimentVersion(
            id=id,
            experiment_id="exp-1",
            number=1,
            target=TARGET,
            dataset_id="ds-1",
            dataset_version_id=self.dataset_version.id,
            bindings=bindings,
            config=config,
            created_at=NOW,
        )
        if self.definitions.experiment("exp-1") is None:
            self.definitions.add_experiment(
                Experiment(id="exp-1", name=self.name, collection_id="quality", latest_version_id=id, created_at=NOW),
                version,
            )
            return version
        return self.definitions.put_version(version)

    def run(
        self,
        outcomes: Mapping[str, str] | str,
        config: ExperimentConfig | None = None,
        *,
        name: str | None = None,
        state: RunState = "completed",
        reason: str | None = None,
        outputs: Mapping[str, JsonValue] | None = None,
        bindings: tuple[Binding, ...] = BINDINGS,
    ) -> ExperimentRun:
        """Store a run with the given outcomes.

        Each trial is a letter: `p`, `f`, `e` or `u`. `outcomes` has the letters of each item, or is a text with one
        letter per item. Items without an outcome were not run.
        """
        keys = [item.key for item in self.items]
        given = dict(zip(keys, outcomes, strict=False)) if isinstance(outcomes, str) else outcomes
        repetitions = max(map(len, given.values()), default=1)
        version = self.version(config or ExperimentConfig(), bindings)
        self.number += 1
        run = ExperimentRun(
            id=f"{self.number:020x}",
            experiment_id="exp-1",
            experiment_version_id=version.id,
            dataset_version_id=self.dataset_version.id,
            deployment_id="dep-1",
            name=name,
            repetitions=repetitions,
            items=len(self.items),
            created_at=NOW,
        )
        self.runs.add(run)
        self.runs.begin(run.id, "here:1", NOW)
        for number, item in enumerate(self.items):
            for repetition, outcome in enumerate(given.get(item.key, ""), 1):
                self._put(run.id, number, item, repetition, outcome, (outputs or {}).get(item.key, "said"))
        if state in ("completed", "failed", "cancelled"):
            return self.runs.end(run.id, state, NOW, reason)
        return run

    def _put(self, run_id: str, number: int, item: Item, repetition: int, outcome: str, output: JsonValue) -> None:
        one = RunItem(
            id=RunItem.id_of(run_id, item.key, repetition),
            run_id=run_id,
            item_key=item.key,
            repetition=repetition,
            number=number,
            status="error" if outcome == "e" else "ok",
            verdict=OUTCOMES[outcome],
            error="ValueError: no such order" if outcome == "e" else None,
            duration_ms=10.0 * (number + 1),
            usage=Usage(calls=1, input_tokens=10, output_tokens=5, cost_usd=0.001),
            created_at=NOW,
        )
        scores = [] if outcome == "e" else [_score(one, EXACT, outcome), _score(one, JSON, "p", required=False)]
        seen = ScoreEvidence(scorer_input={"output": output}, evidence={"expected": item.expected_output})
        self.runs.put(ItemTrial(item=one, output=None if outcome == "e" else output), [(one, seen) for one in scores])


def _score(item: RunItem, spec: ScorerSpec, outcome: str, *, required: bool = True) -> Score:
    broke = outcome == "u"
    return Score(
        id=f"score-{item.id.removeprefix('item-')}{spec.name[:2]}",
        run_id=item.run_id,
        run_item_id=item.id,
        item_key=item.item_key,
        repetition=item.repetition,
        scorer=spec.name,
        scorer_version_id=spec.id,
        required=required,
        status="error" if broke else "ok",
        value=None if broke else float(outcome == "p"),
        passed=None if broke else outcome == "p",
        label=None if broke else "match" if outcome == "p" else "mismatch",
        explanation="nothing is expected of this item" if broke else "compared as text",
        error_type="input_error" if broke else None,
        created_at=NOW,
    )


def make_items(*keys: str) -> tuple[Item, ...]:
    return tuple(Item(key=key, input=f"ask {key}", expected_output=f"expect {key}") for key in keys)
