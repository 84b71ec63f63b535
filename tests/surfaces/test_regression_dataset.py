"""`experiments runs regression-dataset`: selection of items, the created objects, and refused input."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from evalscribe.experiments.archive import archive_run
from evalscribe.experiments.regression import RegressionMade, create_regression_dataset
from evalscribe.model.dataset import Item
from evalscribe.model.experiment import ExperimentConfig, ExperimentRun, RunItem
from evalscribe.model.target import Component, Deployment
from evalscribe.workspace import Workspace
from support.command import InProcessCommand
from support.stored_experiment import NOW, StoredExperiment

ITEMS = tuple(
    Item(
        key=key,
        input=f"ask {key}",
        expected_output={"answer": key},
        metadata={"kind": "refund"},
        events=({"role": "user", "content": key},),
        cluster="c1",
        source={"file": "tickets.jsonl", "line": 1},
    )
    for key in ("a", "b", "c", "d")
)


@pytest.fixture
def stored(inside: InProcessCommand) -> Iterator[StoredExperiment]:
    experiment = StoredExperiment(inside.folder / ".evalscribe", ITEMS)
    yield experiment
    experiment.close()


def dataset(inside: InProcessCommand, run: str, *more: str, code: int = 0, name: str = "refunds") -> RegressionMade:
    completed = inside.run(
        "experiments", "runs", "regression-dataset", run, "--name", name, "--format", "json", *more, code=code
    )
    return RegressionMade.model_validate_json(completed.out)


def refused(inside: InProcessCommand, run: str, *more: str, code: int = 64, name: str = "refunds") -> str:
    completed = inside.run("experiments", "runs", "regression-dataset", run, "--name", name, *more, code=code)
    return completed.err


def test_failed_items_become_a_published_dataset_with_its_own_experiment(
    inside: InProcessCommand, stored: StoredExperiment
) -> None:
    run = stored.run(
        {"a": "pp", "b": "pf", "c": "ee", "d": "ff"}, ExperimentConfig(min_pass_rate=0.5, concurrency=7), name="pr-1"
    )
    created = dataset(inside, "pr-1")
    assert (created.parent_run_id, created.items, created.run_id) == (run.id, 2, None)
    assert created.notes[0].startswith("1 item left out: no answer, or not scored")

    assert created.dataset_version_id is not None
    version = stored.datasets.version(created.dataset_version_id)
    assert version is not None
    assert (version.provenance, version.parent_run_id, version.number) == ("derived", run.id, 1)
    b, d = stored.datasets.items(version.id)
    assert b.model_copy(update={"source": {}}) == ITEMS[1].model_copy(update={"source": {}})
    assert b.source == {
        "run": run.id,
        "run_item": RunItem.id_of(run.id, "b", 2),
        "verdict": "failed",
        "scorers": ["exact_match"],
        "of": {"file": "tickets.jsonl", "line": 1},
    }
    assert d.key == "d"

    experiment = stored.definitions.experiment("refunds")
    assert experiment is not None
    assert (experiment.id, experiment.type) == (created.experiment_id, "regression")
    before = stored.definitions.experiment_version(run.experiment_version_id)
    now = stored.definitions.experiment_version(created.experiment_version_id or "")
    assert before is not None
    assert now is not None
    assert (now.target, now.bindings, now.dataset_version_id) == (before.target, before.bindings, version.id)
    assert now.config == ExperimentConfig(passed_threshold=1.0, concurrency=7)


def test_text_output_prints_dataset_version_and_experiment_ids(
    inside: InProcessCommand, stored: StoredExperiment
) -> None:
    stored.run("pffp", name="pr-1")
    lines = inside.run("experiments", "runs", "regression-dataset", "pr-1", "--name", "refunds").out.splitlines()
    assert [line.split()[0] for line in lines] == ["dataset", "version", "experiment"]
    assert "2 items of run" in lines[0]


def test_chosen_trials_may_lack_an_answer_but_must_not_have_passed(
    inside: InProcessCommand, stored: StoredExperiment
) -> None:
    run = stored.run("pfeu", name="pr-1")
    ids = {key: RunItem.id_of(run.id, key, 1) for key in "abcd"}
    assert "a passed in this trial" in refused(inside, "pr-1", "--run-item-id", ids["a"])
    assert "has no run item 'item-0'" in refused(inside, "pr-1", "--run-item-id", "item-0", code=66)
    assert stored.datasets.find("refunds") is None
    created = dataset(inside, "pr-1", "--run-item-id", ids["c"], "--run-item-id", ids["d"], "--run-item-id", ids["c"])
    assert (created.items, created.notes) == (2, ())


def test_run_without_failures_creates_no_dataset(inside: InProcessCommand, stored: StoredExperiment) -> None:
    stored.run("pppp", name="pr-1")
    output = inside.run("experiments", "runs", "regression-dataset", "pr-1", "--name", "refunds").out
    assert "nothing failed, so nothing was created" in output
    assert stored.datasets.find("refunds") is None
    assert stored.definitions.experiment("refunds") is None


def test_duplicate_name_is_refused_before_anything_is_created(
    inside: InProcessCommand, stored: StoredExperiment
) -> None:
    stored.run("pfff", name="pr-1")
    assert "a dataset with this name already exists" in refused(inside, "pr-1", name="tickets")
    assert "an experiment with this name already exists" in refused(inside, "pr-1", name="quality")
    assert stored.datasets.find("quality") is None


def test_invalid_option_combinations_are_refused(inside: InProcessCommand, stored: StoredExperiment) -> None:
    stored.run("pfff", name="pr-1")
    assert "--reviewed-only needs --classification" in refused(inside, "pr-1", "--reviewed-only")
    assert "--wait waits for a run" in refused(inside, "pr-1", "--wait")
    assert "--deployment-id needs --start-run" in refused(inside, "pr-1", "--deployment-id", "dep-1")
    assert "is not one of MODEL_FAULT" in refused(inside, "pr-1", "--classification", "MODEL_FAULTS")
    assert "evalscribe analyze" in refused(inside, "pr-1", "--classification", "MODEL_FAULT", code=66)
    assert "deployment 'x'" in refused(inside, "pr-1", "--start-run", "--deployment-id", "x", code=66)
    assert "run 'nobody' not found" in refused(inside, "nobody", code=66)
    stored.run("f", name="pr-2", state="running")
    assert "pr-2 is running" in refused(inside, "pr-2")
    assert [one.name for one in stored.datasets.all()] == ["tickets"]


def test_start_run_queues_a_run_with_the_candidate_deployment(
    inside: InProcessCommand, stored: StoredExperiment
) -> None:
    component = Component(name="agent", kind="http", address="http://127.0.0.1:9/")
    for id in ("dep-1", "dep-2"):
        stored.definitions.add_deployment(
            Deployment(id=id, name=id, components=(component,), folder=str(inside.folder), created_at=NOW)
        )
    stored.run("pfff", name="pr-1")
    with Workspace(folder=inside.folder, environ={}) as workspace:
        created, run = create_regression_dataset(workspace, "pr-1", name="refunds", start_run=True, deployment="dep-2")
    assert run is not None
    assert (run.id, run.state, run.deployment_id, run.items) == (created.run_id, "queued", "dep-2", 3)


def test_classification_filter_prefers_human_labels_over_verdicts(
    inside: InProcessCommand, stored: StoredExperiment
) -> None:
    """Labels come from the run's report, in which a reviewer labelled two findings."""
    run = stored.run("pfff", name="pr-1")
    asyncio.run(archive(inside, stored, run))
    inside.run("analyze", run.id, "--judge", "rules")
    inside.run("review", "label", run.id[:8], "1", "OVERLY_STRICT")
    inside.run("review", "label", run.id[:8], "2", "MODEL_FAULT")
    blamed = dataset(inside, "pr-1", "--classification", "MODEL_FAULT,KNOWN_GAP", name="blamed")
    assert (blamed.items, blamed.left_out) == (2, {"OVERLY_STRICT": 1})
    sure = dataset(inside, "pr-1", "--classification", "MODEL_FAULT", "--reviewed-only", name="sure")
    assert (sure.items, sure.left_out) == (1, {"OVERLY_STRICT": 1, "not reviewed": 1})
    (item,) = stored.datasets.items(sure.dataset_version_id or "")
    assert item.key == "c"
    assert (item.source["classification"], item.source["reviewer"]) == ("MODEL_FAULT", "people")


async def archive(inside: InProcessCommand, stored: StoredExperiment, run: ExperimentRun) -> None:
    version = stored.definitions.experiment_version(run.experiment_version_id)
    assert version is not None
    with Workspace(folder=inside.folder, environ={}) as workspace:
        await archive_run(workspace, run, version, "completed", None)


def test_imported_run_gives_a_dataset_without_an_experiment(inside: InProcessCommand, stored: StoredExperiment) -> None:
    """An eval with several trials is represented by its first failed trial."""
    trials = [
        {"task_id": task, "trial": trial, "reward": reward, "info": {"task": {"instruction": f"do {task}"}}, "traj": []}
        for task, trial, reward in ((0, 0, 1.0), (0, 1, 0.0), (0, 2, 0.0), (1, 0, 0.0), (2, 0, 1.0))
    ]
    (inside.folder / "runs.json").write_text(json.dumps(trials))
    inside.run("import", "runs.json", "--model", "acme/one", "--collection", "tau")
    with Workspace(folder=inside.folder, environ={}) as workspace:
        (run,) = workspace.store.runs.runs("tau")
    assert "--start-run needs a run of an experiment" in refused(inside, run.id, "--start-run")
    created = dataset(inside, run.id)
    assert (created.items, created.experiment_id) == (2, None)
    assert "give the dataset a target" in created.notes[-1]
    first, second = stored.datasets.items(created.dataset_version_id or "")
    assert first.source["eval"] == f"{first.key}#2"
    assert (first.cluster, second.source["status"]) == (None, "failed")
