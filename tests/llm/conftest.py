from collections.abc import Iterator
from pathlib import Path

import pytest

from support.batch_sessions import BatchSessions
from support.batches_server import BatchesServer


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[BatchSessions]:
    with BatchesServer() as server:
        opened = BatchSessions(tmp_path / "store", server)
        yield opened
        opened.intents.close()
