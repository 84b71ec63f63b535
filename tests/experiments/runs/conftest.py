from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from support.scripted_experiments import ExperimentLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Callable[..., ExperimentLab]]:
    """Function that creates a lab with the given number of items and config; labs are closed after the test."""
    with ExitStack() as opened:
        yield lambda items=4, **config: opened.enter_context(closing(ExperimentLab(tmp_path, items, **config)))


@pytest.fixture
def server_lab(postgres_url: str) -> Iterator[ExperimentLab]:
    with closing(ExperimentLab(postgres_url)) as lab:
        yield lab
