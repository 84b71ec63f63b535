"""Dataset store shared by the session, because opening one takes longer than most tests."""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from evalscribe.experiments.datasets import create_dataset
from evalscribe.model.dataset import Dataset
from evalscribe.store.datasets import DatasetStore
from evalscribe.store.experiment_runs import open_datasets

NOW = "2026-11-21T10:00:00.000+00:00"


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatasetStore]:
    with closing(open_datasets(tmp_path_factory.mktemp("datasets"))) as opened:
        yield opened


@pytest.fixture(scope="session")
def make(datasets: DatasetStore) -> Callable[[], Dataset]:
    """Create an empty dataset."""
    numbers = count()
    return lambda: create_dataset(datasets, f"set {next(numbers)}", "", NOW)


@pytest.fixture
def dataset(make: Callable[[], Dataset]) -> Dataset:
    return make()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
