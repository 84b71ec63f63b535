from collections.abc import Iterator

import pytest

from support.convex_server import Deployment


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    deployment = Deployment()
    yield deployment
    deployment.close()
