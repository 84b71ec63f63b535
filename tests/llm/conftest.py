from collections.abc import Iterator
from pathlib import Path

import pytest

from batch_desk import Desk
from batches_server import BatchesServer


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with BatchesServer() as server:
        opened = Desk(tmp_path / "store", server)
        yield opened
        opened.intents.close()
