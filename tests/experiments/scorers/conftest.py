"""Fixture that runs one scorer on one request, as an experiment does."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from evalscribe.experiments.scorers.catalogue import scorer_runner, scorer_spec
from evalscribe.model.score import ScoreResult, ScorerRequest

Scored = Callable[..., Awaitable[ScoreResult]]


@pytest.fixture
def scored() -> Scored:
    """Call as `scored("contains", {"pattern": "x"}, output="xy")`; further keywords are fields of the request."""
    return _scored


async def _scored(name: str, config: dict[str, Any] | None = None, **fields: Any) -> ScoreResult:
    ready = scorer_runner(scorer_spec(name, config or {}))
    try:
        return await ready.score(ScorerRequest(**{"input": None, "output": None, **fields}))
    finally:
        await ready.close()
