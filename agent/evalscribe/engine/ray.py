"""Workers on the machines of a Ray cluster: the given one, or one of this machine for this process alone."""

import asyncio
import logging
import os
import secrets
import signal
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from evalscribe.engine.mapped import mapped
from evalscribe.engine.ray_crew import RayCrew
from evalscribe.errors import UnavailableError, UsageError
from evalscribe.ports import Clerk, Crew, Factory, Lost

T = TypeVar("T")
R = TypeVar("R")

TRIES = 3
"""How often a piece is tried whose worker died."""
OBJECTS = 256 * 1024 * 1024
"""Bytes of shared memory of a cluster of our own; no piece is larger than a few megabytes."""
LOOPBACK = "127.0.0.1"
MISSING = "--engine ray needs the package ray: pip install 'evalscribe[ray]'"


class RayEngine:
    """A `ports.Engine`. Ray is started, or joined, when the first piece is handed out."""

    name = "ray"

    def __init__(self, lanes: int = 4, address: str | None = None, *, tries: int = TRIES) -> None:
        """`address`: `HOST:PORT` of a cluster's head, from a machine of that cluster; None for one of our own.

        Raises `UsageError` without the package, or for an address of another kind.
        """
        from importlib.util import find_spec

        if find_spec("ray") is None:
            raise UsageError(MISSING)
        if address is not None and "://" in address:
            raise UsageError(f"--ray-address {address}: give HOST:PORT of the cluster's head, from one of its machines")
        self.lanes = lanes
        self._address = address
        self._tries = tries
        self._joined: asyncio.Task[bool] | None = None

    @asynccontextmanager
    async def crew(self, factory: Factory[T, R], clerk: Clerk | None = None) -> AsyncIterator[Crew[T, R]]:
        crew = RayCrew[T, R](self._ready, factory, clerk, lanes=self.lanes, tries=self._tries)
        try:
            yield crew
        finally:
            await crew.close()

    async def map(self, factory: Factory[T, R], work: Iterable[T]) -> AsyncIterator[tuple[T, R | Lost]]:
        async with self.crew(factory) as crew:
            async for done in mapped(crew, work, self.lanes):
                yield done

    async def close(self) -> None:
        """Leave the cluster, unless this process was in one before."""
        if self._joined is None:
            return
        import ray

        with suppress(UnavailableError):
            if await self._joined:
                await asyncio.to_thread(ray.shutdown)

    async def _ready(self) -> int:
        """Join the cluster, once; how many processors it has. Raises `UnavailableError`."""
        import ray

        if self._joined is None:
            self._joined = asyncio.ensure_future(asyncio.to_thread(join, self._address))
        await asyncio.shield(self._joined)
        _signals_are_ours()
        return max(1, int(ray.cluster_resources().get("CPU", 1)))


def join(address: str | None) -> bool:
    """Whether this process was in no cluster before. Not in the main thread, where Ray would take SIGTERM for itself.

    Raises `UnavailableError`.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address is None:
        # Nobody else may use it; without this Ray writes a token into the home folder.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    import ray

    _silence()
    if ray.is_initialized():
        return False
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL, "configure_logging": False}
    if address is None:
        quiet |= {"include_dashboard": False, "object_store_memory": OBJECTS, "_node_ip_address": LOOPBACK}
    try:
        ray.init(address=address or "local", **quiet)
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        where = f"the Ray cluster {address} cannot be joined" if address else "Ray cannot be started here"
        raise UnavailableError(f"{where}: {said}") from None
    return True


def _signals_are_ours() -> None:
    """Ray hears SIGTERM before Python does, and prints a page about it."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            if handler := signal.getsignal(number):
                signal.signal(number, handler)


def _silence() -> None:
    """What Ray has to say of a worker that died, ten lines, is told by us in one; it has no switch for that."""
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_args, **_named: None
