from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from evalscribe.experiments.python_host import PythonHost, PythonTarget
from evalscribe.model.target import TargetCall

Hosted = Callable[[str], PythonHost]


@pytest.fixture
async def hosted(tmp_path: Path) -> AsyncIterator[Hosted]:
    """Create a host for a module `user` with the given source and four workers."""
    hosts: list[PythonHost] = []

    def create_host(source: str) -> PythonHost:
        (tmp_path / "user.py").write_text(source)
        hosts.append(PythonHost(tmp_path, 4))
        return hosts[-1]

    yield create_host
    for host in hosts:
        await host.close()


def make_call(value: object, timeout_s: float = 300.0, **changed: object) -> TargetCall:
    fields = {"run_id": "r1", "item_key": "k", "repetition": 2, "input": value, "timeout_s": timeout_s, **changed}
    return TargetCall.model_validate(fields)


@pytest.fixture
def calling() -> Callable[..., TargetCall]:
    return make_call


@pytest.fixture
def function(hosted: Hosted) -> Callable[..., PythonTarget]:
    """Create the target for `fn` in a module with the given source."""
    return lambda source, name="fn": PythonTarget(f"user:{name}", hosted(source))
