"""Where work is done: in this process, or on many machines."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from evalscribe.ids import Frozen

T = TypeVar("T")
R = TypeVar("R")
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

Worker = Callable[[T], Awaitable[R]]
"""Does one piece of work."""
Ask = Callable[[object], Awaitable[object]]
"""Asks whoever hands out the work. Question and answer can be pickled; raises what answering raised."""
Factory = Callable[[Ask], AbstractAsyncContextManager[Worker[T, R]]]
"""Makes a worker and all that it works with, where the work is done; can be pickled."""
Clerk = Callable[[], AbstractAsyncContextManager[Ask]]
"""Answers the questions of one worker where the work is handed out; closed when that worker is, or has died."""


class Lost(Frozen):
    """A piece of work whose worker died each time it was tried."""

    reason: str


class Crew(Protocol[T_contra, R_co]):
    """Workers that stand ready."""

    async def do(self, piece: T_contra) -> R_co | Lost:
        """The result of one piece. A worker that dies is replaced and its piece tried again.

        Raises what the worker raises, as itself. A cancellation reaches the worker.
        """


class Engine(Protocol):
    """Does many pieces of work, several at once."""

    name: str
    """`local` or `ray`."""
    lanes: int
    """How many pieces are under way at once."""

    def crew(self, factory: "Factory[T, R]", clerk: Clerk | None = None) -> AbstractAsyncContextManager[Crew[T, R]]:
        """Workers made by this factory; without a clerk they have no questions.

        Raises `UnavailableError` where they cannot be had.
        """

    def map(self, factory: "Factory[T, R]", work: Iterable[T]) -> AsyncIterator[tuple[T, R | Lost]]:
        """Each piece with its result, in the order they are done; the next is taken only when there is a free lane.

        What a worker raises ends the work and is raised here.
        """

    async def close(self) -> None: ...
