"""Where work is done."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from evalscribe.errors import UsageError
from evalscribe.llm.budget import Purse
from evalscribe.ports import Engine
from evalscribe.prompts import Prompts
from evalscribe.settings import Origin, Settings
from evalscribe.settings.place import ENVIRONMENT
from evalscribe.wiring.afar import Afar, Recipe

LOCAL, RAY = "local", "ray"


def engine(found: Settings, name: str | None = None) -> Engine:
    """The named engine, or the one that is set. Raises `UsageError` where there is none, or its package is missing."""
    chosen = name or found.engine.value
    lanes = found.concurrency.value
    if chosen == RAY:
        from evalscribe.engine.ray import RayEngine

        _check_cluster(found.ray_address.origin)
        return RayEngine(lanes, found.ray_address.value)
    if chosen != LOCAL:
        raise UsageError(f"--engine {chosen} is not known: {LOCAL} or {RAY}")
    from evalscribe.engine.local import LocalEngine

    return LocalEngine(lanes)


def _check_cluster(named: Origin) -> None:
    """Whoever runs a cluster gets keys and evidence, and can run code here."""
    if named.trust < ENVIRONMENT:
        raise UsageError(
            f"the Ray cluster's address comes from {named.where}, which may be a stranger's\n"
            "name it with --ray-address or in the environment"
        )


@asynccontextmanager
async def afar(found: Settings, budget: Purse, prompts: Prompts, *, batch: bool) -> AsyncIterator[Afar | None]:
    """Workers that judge, all within this budget; None where this process does it all.

    Raises `UsageError` where batches are asked for too: they wait in one place.
    """
    from evalscribe.llm.budget_line import served

    chosen = engine(found)
    if chosen.name == LOCAL:
        yield None
        return
    if batch:
        raise UsageError(f"--batch sends all questions from one process: leave out --engine {chosen.name}")
    try:
        async with chosen.crew(Recipe.of(found, prompts), partial(served, budget)) as crew:
            yield Afar(crew)
    finally:
        await chosen.close()
