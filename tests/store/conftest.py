from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.store.sql import SqlStore, open_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / ".evalscribe"


@pytest.fixture
def store(folder: Path) -> Iterator[SqlStore]:
    store = open_store(folder)
    yield store
    store.close()
