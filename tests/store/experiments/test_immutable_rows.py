"""Immutable rows cannot be changed or deleted by direct SQL either, in a file and on a server."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import delete, update

from evalscribe.errors import DataError
from evalscribe.model.score import ScoreQuery
from evalscribe.store import tables
from evalscribe.store.database import open_database
from evalscribe.store.datasets import DatasetStore
from evalscribe.store.definitions import ExperimentStore
from evalscribe.store.experiment_runs import ExperimentRunStore
from evalscribe.store.records import open_collection_records
from support.example_experiments import (
    DATASET,
    DEPLOYMENT,
    EXPERIMENT,
    NOW,
    PROMPT_VERSION,
    RUN,
    SCORER,
    VERSION,
    make_item,
    make_score,
    make_trial,
)

IMMUTABLE = (
    "dataset_versions",
    "version_items",
    "deployments",
    "prompt_versions",
    "scorer_versions",
    "experiment_versions",
)


@pytest.fixture
def filled_store(datasets: DatasetStore, definitions: ExperimentStore, runs: ExperimentRunStore) -> None:
    datasets.add(DATASET)
    datasets.put(DATASET.id, [make_item("k0"), make_item("k1")])
    datasets.publish(DATASET.id, NOW)
    datasets.put(DATASET.id, [make_item("k1", input="changed")])
    definitions.add_deployment(DEPLOYMENT)
    definitions.put_prompt("helper", PROMPT_VERSION)
    definitions.put_scorer(SCORER)
    definitions.add_experiment(EXPERIMENT, VERSION)
    runs.add(RUN)
    runs.put(make_trial(), [make_score(make_trial())])


@contextmanager
def raw(place: Path | str) -> Iterator[Any]:
    """Open a connection of the database driver, without evalscribe's code."""
    driver_connection = psycopg.connect(place) if isinstance(place, str) else sqlite3.connect(place / "store.db")
    with closing(driver_connection) as connection:
        yield connection


@pytest.mark.usefixtures("filled_store")
@pytest.mark.parametrize("table", [*IMMUTABLE, "scores"])
def test_database_refuses_direct_changes_of_immutable_rows(place: Path | str, table: str) -> None:
    column = tables.metadata.tables[table].columns.keys()[-1]
    for statement in (f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}"):
        with raw(place) as connection:
            if table == "scores" and statement.startswith("UPDATE"):
                statement = "UPDATE scores SET explanation = 'other', current = NOT current"
            with pytest.raises((sqlite3.IntegrityError, psycopg.errors.RaiseException), match="never change"):
                connection.execute(statement)


@pytest.mark.usefixtures("filled_store")
def test_current_flag_of_a_score_can_change(place: Path | str, runs: ExperimentRunStore) -> None:
    with raw(place) as connection:
        connection.execute("UPDATE scores SET current = NOT current")
        connection.commit()
    assert [row.current for row in runs.scores(ScoreQuery(superseded=True))] == [False]


@pytest.mark.usefixtures("filled_store")
def test_refused_change_is_a_data_error_with_a_message(place: Path | str) -> None:
    with closing(open_database(place)) as database:
        for statement in (update(tables.scores).values(value=0.0), delete(tables.version_items)):
            with pytest.raises(DataError, match=r"refused the change: .* never change"):
                database.execute(statement, {})


@pytest.mark.usefixtures("filled_store")
def test_garbage_collection_keeps_immutable_rows(
    place: Path | str, datasets: DatasetStore, runs: ExperimentRunStore
) -> None:
    with closing(open_collection_records(place)) as run_store:
        assert {row.rows for row in run_store.sweep(dry_run=True)} == {0}
        run_store.sweep(dry_run=False)
        assert runs.attempt(make_trial().item.id) == make_trial()
        assert runs.evidence(make_score(make_trial())[0].id) == make_score(make_trial())[1]
        assert len(list(datasets.items(datasets.versions(DATASET.id)[0].id))) == 2
        assert [row.input for row in datasets.draft(DATASET.id)][1] == "changed"
        datasets.drop(DATASET.id, ["k1"])
        assert {row.kind: row.rows for row in run_store.sweep(dry_run=False) if row.rows} == {"texts": 1}
