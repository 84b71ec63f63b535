"""One Ray cluster for all tests of this package, as it takes seconds to start; stopped after the last of them."""

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from evalscribe.model.protocols import Engine
from support.ray_cluster import ClusterAddress
from support.requirements import skip_or_fail


@pytest.fixture(scope="package")
def address() -> Iterator[ClusterAddress]:
    """The address and token of the cluster that this process starts."""
    if find_spec("ray") is None:
        skip_or_fail("ray")
    import ray

    from evalscribe.remote.engine import join_cluster

    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])  # workers import `support.engine_tasks` from here
    # With Ray's niceness of 15, workers take minutes to start on a busy machine. Ray wants the name in lower case.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    with warnings.catch_warnings():
        # Within the 30 seconds that Ray allows, the cluster cannot always be started on a busy machine. After a failed
        # attempt, Ray drops its running processes, for which Python warns as soon as it collects them.
        warnings.simplefilter("ignore", ResourceWarning)
        join_cluster(None)
        gc.collect()
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.environ["RAY_AUTH_TOKEN"]}
    yield ClusterAddress(ray.get_runtime_context().gcs_address, token)
    ray.shutdown(wait_for_processes=True)


@pytest.fixture
def cluster(address: ClusterAddress) -> Callable[[], Engine]:
    from evalscribe.remote.engine import RayEngine

    assert address
    return lambda: RayEngine(concurrency=3)
