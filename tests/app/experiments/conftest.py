from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from app.experiments.tried import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    """Makes a lab with so many items and this config; closed at the end."""
    with ExitStack() as opened:
        yield lambda items=4, **config: opened.enter_context(closing(Lab(tmp_path, items, **config)))


@pytest.fixture
def server_lab(postgres_url: str) -> Iterator[Lab]:
    with closing(Lab(postgres_url)) as lab:
        yield lab
