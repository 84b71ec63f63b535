"""A crew of Ray actors: pieces go to whoever has the fewest, and what a dead one had goes to another."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any, Generic, TypeVar

from evalscribe.engine.local import nobody
from evalscribe.engine.place import Place, outcome
from evalscribe.errors import UnavailableError
from evalscribe.ports import Clerk, Factory, Lost

T = TypeVar("T")
R = TypeVar("R")

CLOSING_S = 3.0
"""How long a worker may take to close what it works with."""
LONGEST_REASON = 200
SAME = "Every machine of it needs this version of evalscribe and of Python."


class Died(Exception):
    """A worker is gone."""


class RayCrew(Generic[T, R]):
    """A `ports.Crew`; its workers are started when they are first needed."""

    def __init__(
        self,
        ready: Callable[[], Awaitable[int]],
        factory: Factory[T, R],
        clerk: Clerk | None,
        *,
        lanes: int,
        tries: int,
    ) -> None:
        """`ready` joins the cluster and says how many processors it has."""
        self._ready = ready
        self._factory = factory
        self._clerk = clerk or nobody
        self._lanes = lanes
        self._tries = tries
        self._starting = asyncio.Lock()
        self._stations: list[Station] = []

    async def do(self, piece: T) -> R | Lost:
        reason = ""
        for _ in range(self._tries):
            station = await self._station()
            try:
                result: R = await station.do(piece)
                return result
            except Died as error:
                reason = " ".join(str(error).split())[:LONGEST_REASON]
        return Lost(reason=f"its worker died {self._tries} times: {reason}")

    async def close(self) -> None:
        await asyncio.gather(*(station.close() for station in self._stations))

    async def _station(self) -> "Station":
        """The one with the fewest pieces; a dead one is replaced. Raises what making a worker raises."""
        async with self._starting:
            self._stations = [station for station in self._stations if not station.dead]
            wanted = min(self._lanes, await self._ready())
            idle = [station for station in self._stations if not station.pieces]
            if not idle and len(self._stations) < wanted:
                self._stations.append(Station(self._factory, self._clerk))
        return min(self._stations, key=lambda station: station.pieces)


class Station:
    """The near end of one worker."""

    def __init__(self, factory: Factory[Any, Any], clerk: Clerk) -> None:
        import ray

        actor = ray.remote(Place).options(scheduling_strategy="SPREAD", max_restarts=0)
        self._actor = actor.remote()
        self.dead = False
        self.pieces = 0
        self._numbers = count()
        self._opened = asyncio.ensure_future(self._open(factory))
        self._line = asyncio.ensure_future(self._serve(clerk))

    async def do(self, piece: object) -> Any:
        """Raises `Died`, and what the worker raises."""
        number = next(self._numbers)
        self.pieces += 1
        try:
            await asyncio.shield(self._opened)
            done = await self._call(self._actor.do.remote(number, piece))
        except asyncio.CancelledError:
            with suppress(Exception):
                self._actor.cancel.remote(number)
            raise
        finally:
            self.pieces -= 1
        return done.result()

    async def close(self) -> None:
        import ray

        with suppress(Exception):
            if self._opened.done() and not self.dead:
                async with asyncio.timeout(CLOSING_S):
                    await self._call(self._actor.close.remote())
        self._line.cancel()
        self._opened.cancel()
        await asyncio.gather(self._line, self._opened, return_exceptions=True)
        with suppress(Exception):
            ray.kill(self._actor)

    async def _open(self, factory: Factory[Any, Any]) -> None:
        try:
            opened = await self._call(self._actor.open.remote(factory))
        except RuntimeError as error:
            said = str(error).splitlines()[0]
            raise UnavailableError(f"a worker cannot start on the Ray cluster: {said}\n{SAME}") from None
        opened.result()

    async def _serve(self, clerk: Clerk) -> None:
        """Answer the worker's questions, each as soon as its answer is known, while it lives."""
        answering: set[asyncio.Task[None]] = set()
        async with clerk() as ask:
            try:
                while True:
                    question = await self._call(self._actor.question.remote())
                    task = asyncio.ensure_future(self._answer(question.number, ask(question.asked)))
                    answering.add(task)
                    task.add_done_callback(answering.discard)
            except Died:
                self.dead = True
            finally:
                for task in answering:
                    task.cancel()
                await asyncio.gather(*answering, return_exceptions=True)

    async def _answer(self, number: int, answering: Awaitable[object]) -> None:
        answer = await outcome(answering)
        with suppress(Exception):
            self._actor.answer.remote(number, answer)

    async def _call(self, reference: Any) -> Any:
        """Raises `Died` where the worker is gone."""
        from ray.exceptions import RayError, RayTaskError

        try:
            return await reference
        except RayTaskError as error:
            raise RuntimeError(str(error.cause or error)) from None
        except RayError as error:
            self.dead = True
            raise Died(str(error)) from None
