import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evalscribe.store.datasets import DatasetStore
from evalscribe.store.definitions import ExperimentStore
from evalscribe.store.experiment_runs import ExperimentRunStore, open_datasets, open_definitions, open_experiment_runs


@pytest.fixture(scope="session")
def made_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / ".evalscribe"
    open_datasets(folder).close()
    return folder


@pytest.fixture
def folder(tmp_path: Path, made_folder: Path) -> Path:
    """A copy of an empty store. Creating a store takes ten times as long."""
    return shutil.copytree(made_folder, tmp_path / ".evalscribe")


@pytest.fixture
def datasets(place: Path | str) -> Iterator[DatasetStore]:
    with closing(open_datasets(place)) as datasets:
        yield datasets


@pytest.fixture
def definitions(place: Path | str) -> Iterator[ExperimentStore]:
    with closing(open_definitions(place)) as definitions:
        yield definitions


@pytest.fixture
def runs(place: Path | str) -> Iterator[ExperimentRunStore]:
    with closing(open_experiment_runs(place)) as runs:
        yield runs
