"""One score by one scorer, as an experiment would get it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from evalscribe.experiments.scorers.catalogue import scorer_runner, scorer_spec
from evalscribe.model.score import ScoreResult, ScorerRequest

Scored = Callable[..., Awaitable[ScoreResult]]


@pytest.fixture
def scored() -> Scored:
    """`scored("contains", {"pattern": "x"}, output="xy")`; the rest are fields of the request."""
    return _scored


async def _scored(name: str, config: dict[str, Any] | None = None, **fields: Any) -> ScoreResult:
    ready = scorer_runner(scorer_spec(name, config or {}))
    try:
        return await ready.score(ScorerRequest(**{"input": None, "output": None, **fields}))
    finally:
        await ready.close()
