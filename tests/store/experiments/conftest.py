from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evalscribe.ports import Datasets, Definitions, ExperimentRuns
from evalscribe.store.experiments import open_datasets, open_definitions, open_experiment_runs


@pytest.fixture
def datasets(place: Path | str) -> Iterator[Datasets]:
    with closing(open_datasets(place)) as datasets:
        yield datasets


@pytest.fixture
def definitions(place: Path | str) -> Iterator[Definitions]:
    with closing(open_definitions(place)) as definitions:
        yield definitions


@pytest.fixture
def runs(place: Path | str) -> Iterator[ExperimentRuns]:
    with closing(open_experiment_runs(place)) as runs:
        yield runs
