"""Deleting datasets, runs and experiments deletes all their rows, in a file and on a server."""

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.model.experiment import JudgeTarget
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Run
from evalscribe.store import tables
from evalscribe.store.collections import open_collections
from evalscribe.store.database import open_database
from evalscribe.store.datasets import DatasetStore
from evalscribe.store.definitions import ExperimentStore
from evalscribe.store.experiment_runs import ExperimentRunStore
from evalscribe.store.records import open_collection_records
from support.example_experiments import DATASET, EXPERIMENT, NOW, RUN, VERSION, make_item, make_score, make_trial

OTHER = RUN.model_copy(update={"id": "f" * 20, "name": "pr-2", "state": "completed"})


def filled_tables(place: Path | str) -> dict[str, int]:
    """Return the number of rows by table, without empty tables."""
    with closing(open_database(place)) as database, database.reading() as connection:
        counts = {
            name: connection.scalar(select(func.count()).select_from(table)) or 0
            for name, table in tables.metadata.tables.items()
            if table is not tables.revisions
        }
    return {name: count for name, count in counts.items() if count}


@pytest.fixture
def ended_runs(definitions: ExperimentStore, runs: ExperimentRunStore) -> ExperimentRunStore:
    """An experiment with two runs that have ended, with one trial each."""
    definitions.add_experiment(EXPERIMENT, VERSION)
    for run in (RUN, OTHER):
        runs.add(run)
        trial = make_trial(run_id=run.id)
        runs.put(trial, [make_score(trial)])
    runs.end(RUN.id, "completed", NOW)
    return runs


def test_dataset_is_deleted_with_its_draft_and_versions(place: Path | str, datasets: DatasetStore) -> None:
    other = DATASET.model_copy(update={"id": "ds-2", "name": "other"})
    for dataset in (DATASET, other):
        datasets.add(dataset)
    assert datasets.contents(DATASET.id) == ""
    for dataset in (DATASET, other):
        datasets.put(dataset.id, [make_item("a"), make_item("b")])
        datasets.publish(dataset.id, NOW)
    datasets.drop(DATASET.id, ["b"])
    datasets.publish(DATASET.id, NOW)
    assert datasets.contents(DATASET.id) == "1 draft item, 2 versions"
    datasets.remove(DATASET.id)
    assert datasets.all() == (other,)
    assert filled_tables(place) == {
        "datasets": 1,
        "draft_items": 2,
        "dataset_versions": 1,
        "version_items": 2,
        "texts": 2,
    }
    datasets.remove(other.id)
    with closing(open_collection_records(place)) as run_store:
        run_store.sweep(dry_run=False)
    assert filled_tables(place) == {}


def test_dataset_in_use_by_an_experiment_is_not_deleted(datasets: DatasetStore, definitions: ExperimentStore) -> None:
    datasets.add(DATASET)
    definitions.add_experiment(EXPERIMENT, VERSION)
    for method in (datasets.contents, datasets.remove):
        with pytest.raises(UsageError, match="used by 1 experiment: refunds"):
            method(DATASET.id)
    assert datasets.all() == (DATASET,)


def test_run_is_deleted_with_its_trials_and_scores(place: Path | str, ended_runs: ExperimentRunStore) -> None:
    assert ended_runs.contents(RUN.id, OTHER.id) == "2 runs, 2 trials that cost $1.50"
    ended_runs.remove(RUN.id)
    rows = filled_tables(place)
    assert (rows["experiment_runs"], rows["run_items"], rows["scores"]) == (1, 1, 1)
    assert ended_runs.run(RUN.id) is None
    assert ended_runs.attempt(make_trial(run_id=OTHER.id).item.id) is not None
    with pytest.raises(NotFoundError, match="deleted meanwhile"):
        ended_runs.rescore(RUN.id, [], {})


def test_queued_run_is_not_deleted(definitions: ExperimentStore, runs: ExperimentRunStore) -> None:
    definitions.add_experiment(EXPERIMENT, VERSION)
    runs.add(RUN)
    with pytest.raises(UsageError, match="run pr-1 is queued and cannot be deleted"):
        runs.remove(RUN.id)
    assert runs.run(RUN.id) == RUN


def test_experiment_is_deleted_only_after_its_runs(
    place: Path | str, definitions: ExperimentStore, ended_runs: ExperimentRunStore
) -> None:
    """The collection that was created for its runs is deleted too; another collection is not."""
    own = EXPERIMENT.model_copy(update={"id": "exp-2", "name": "own", "collection_id": "exp-2"})
    definitions.add_experiment(own, VERSION.model_copy(update={"id": "exv-2", "experiment_id": "exp-2"}))
    own_run = OTHER.model_copy(update={"id": "e" * 20, "experiment_id": "exp-2", "name": "pr-3"})
    ended_runs.add(own_run)
    with closing(open_collections(place)) as collection_store, closing(open_collection_records(place)) as run_store:
        for run, collection_id in ((RUN, "c1"), (OTHER, "c1"), (own_run, "exp-2")):
            collection_store.add_collection(Collection(id=collection_id, name=collection_id))
            run_store.add(collection_id, [Run(id=run.id, provider="example", model="m")], [])
        with pytest.raises(UsageError, match="still has 2 runs"):
            definitions.remove_experiment(EXPERIMENT.id)
        for run in (RUN, OTHER, own_run):
            ended_runs.remove(run.id)
        assert run_store.runs("c1") == ()
        definitions.remove_experiment(EXPERIMENT.id)
        definitions.remove_experiment(own.id)
        assert [collection.id for collection in collection_store.collections()] == ["c1"]
        run_store.sweep(dry_run=False)
    assert filled_tables(place) == {"collections": 1, "runs": 3}, "a run without evals may be one that was analysed"


def test_the_experiments_that_judge_by_a_rubric_are_named(definitions: ExperimentStore) -> None:
    target = JudgeTarget(judge="rules", rubric="polite@2")
    definitions.add_experiment(EXPERIMENT, VERSION)
    assert definitions.judged_by("polite") == ()
    judging = EXPERIMENT.model_copy(update={"id": "exp-2", "name": "judging"})
    definitions.add_experiment(
        judging,
        VERSION.model_copy(update={"id": "exv-2", "experiment_id": "exp-2", "target": target}),
    )
    assert definitions.judged_by("polite") == ("judging",)
    assert definitions.judged_by("pol") == ()
