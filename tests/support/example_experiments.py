"""Example datasets, definitions, runs and scores for tests of the store."""

from typing import Any

from evalscribe.model.chat import Usage
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.experiment import (
    Experiment,
    ExperimentConfig,
    ExperimentRun,
    ExperimentVersion,
    ItemTrial,
    PromptTarget,
    RunItem,
)
from evalscribe.model.score import Binding, Score, ScoreEvidence, Scorer, ScorerSpec
from evalscribe.model.target import Component, Deployment, TargetMessage, TargetPromptVersion
from evalscribe.model.transcript import AssistantMessage, Transcript, UserMessage

NOW = "2026-11-21T12:00:00.000Z"
DATASET = Dataset(id="ds-1", name="refunds", description="What people ask", created_at=NOW)
RUN = ExperimentRun(
    id="0123456789abcdef0123",
    experiment_id="exp-1",
    experiment_version_id="exv-1",
    dataset_version_id="dsv-1",
    name="pr-1",
    items=3,
    repetitions=2,
    budget_usd=1.5,
    created_at=NOW,
)


def make_item(key: str, **more: Any) -> Item:
    given: dict[str, Any] = {"input": {"z": 1, "a": key}, "expected_output": "yes", "source": {"line": 1}, **more}
    return Item(key=key, **given)


def make_trial(number: int = 0, repetition: int = 1, *, run_id: str = RUN.id, **more: Any) -> ItemTrial:
    run_item = RunItem(
        id=RunItem.id_of(run_id, f"k{number}", repetition),
        run_id=run_id,
        item_key=f"k{number}",
        repetition=repetition,
        number=number,
        status="ok",
        verdict="passed",
        duration_ms=12.5,
        usage=Usage(calls=1, input_tokens=7, cost_usd=0.25),
        model="openai/m",
        created_at=NOW,
    )
    messages = (UserMessage(content="Hi\x00"), AssistantMessage(content="ü"))
    told: dict[str, Any] = {
        "output": {"z": ["\x00", 10**40, 0.1], "a": None},
        "transcript": Transcript(id="t1", messages=messages),
        "state": {"order": {"paid": True}},
        "log": "a\x00line\n",
        **more,
    }
    return ItemTrial(item=run_item, **told)


def make_score(of: ItemTrial, scorer: str = "exact", **more: Any) -> tuple[Score, ScoreEvidence]:
    given: dict[str, Any] = {
        "id": f"score-{of.item.id}-{scorer}",
        "status": "ok",
        "value": 1.0,
        "passed": True,
        "cost_usd": 0.5,
        "created_at": NOW,
        **more,
    }
    score = Score(
        run_id=of.item.run_id,
        run_item_id=of.item.id,
        item_key=of.item.item_key,
        repetition=of.item.repetition,
        scorer=scorer,
        scorer_version_id=f"scv-{scorer}",
        explanation="It is what was expected.",
        **given,
    )
    seen = {"input": of.item.item_key, "output": of.output}
    return score, ScoreEvidence(scorer_input=seen, scorer_output="raw", evidence=["a", 1], metadata={"z": 1, "a": {}})


DEPLOYMENT = Deployment(
    id="dep-1",
    name="v1",
    components=(Component(name="agent", kind="cmd", address="./agent"),),
    folder="/x",
    created_at=NOW,
)
PROMPT_VERSION = TargetPromptVersion(
    id="pv-1",
    prompt_id="prompt-1",
    number=7,
    model="openai/m",
    messages=(TargetMessage(role="user", content="{{input}}"),),
    created_at=NOW,
)
SPEC = ScorerSpec(name="polite", scorer="custom", address="scorers:polite", code="sha256:1")
SCORER = Scorer(id="scorer-1", name="polite", spec=SPEC, folder="/x", created_at=NOW)
TARGET = PromptTarget(prompt_id="prompt-1", version=PROMPT_VERSION)
BINDINGS = (Binding(spec=SPEC, scorer_id="scorer-1", threshold=0.5),)


def make_version(number: int = 1, *, experiment_id: str = "exp-1", **config: Any) -> ExperimentVersion:
    made = ExperimentConfig(**config)
    return ExperimentVersion(
        id=ExperimentVersion.id_of(experiment_id, TARGET, "dsv-1", BINDINGS, made),
        experiment_id=experiment_id,
        number=number,
        target=TARGET,
        dataset_id="ds-1",
        dataset_version_id="dsv-1",
        bindings=BINDINGS,
        config=made,
        created_at=NOW,
    )


VERSION = make_version()
EXPERIMENT = Experiment(id="exp-1", name="refunds", collection_id="c1", latest_version_id=VERSION.id, created_at=NOW)
