"""One cluster for all tests that need Ray: it takes seconds to start."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from conftest import skip_or_fail
from evalscribe.ports import Engine


@pytest.fixture(scope="session")
def _started() -> Iterator[None]:
    if find_spec("ray") is None:
        skip_or_fail("ray")
    import ray

    from evalscribe.engine.ray import join

    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])  # where workers find `engine_work`
    join(None)
    yield
    ray.shutdown()


@pytest.fixture
def cluster(_started: None) -> Callable[[], Engine]:
    from evalscribe.engine.ray import RayEngine

    return lambda: RayEngine(lanes=3)
