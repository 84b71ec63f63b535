"""One cluster for all tests that need Ray, as it takes seconds to start; gone before other tests change things."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from evalscribe.model.protocols import Engine
from support.ray_cluster import ClusterAddress
from support.requirements import skip_or_fail


@pytest.fixture(scope="package")
def address() -> Iterator[ClusterAddress]:
    """Of the cluster that this process starts."""
    if find_spec("ray") is None:
        skip_or_fail("ray")
    import ray

    from evalscribe.remote.engine import join_cluster

    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])  # where workers find `engine_tasks`
    # With Ray's niceness of 15, workers take minutes to start on a busy machine. Ray wants the name in lower case.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    join_cluster(None)
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.environ["RAY_AUTH_TOKEN"]}
    yield ClusterAddress(ray.get_runtime_context().gcs_address, token)
    ray.shutdown()


@pytest.fixture
def cluster(address: ClusterAddress) -> Callable[[], Engine]:
    from evalscribe.remote.engine import RayEngine

    assert address
    return lambda: RayEngine(concurrency=3)
