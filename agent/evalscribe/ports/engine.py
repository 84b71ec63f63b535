"""Where work is done: in this process, or on many machines."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from evalscribe.ids import Frozen

T = TypeVar("T")
R = TypeVar("R")

Worker = Callable[[T], Awaitable[R]]
"""Does one piece of work."""
Factory = Callable[[], AbstractAsyncContextManager[Worker[T, R]]]
"""Makes a worker and all that it works with, where the work is done; can be pickled."""


class Lost(Frozen):
    """A piece of work whose worker died each time it was tried."""

    reason: str


class Engine(Protocol):
    """Does many pieces of work, several at once."""

    name: str
    """`local` or `ray`."""

    def map(self, factory: "Factory[T, R]", work: Iterable[T]) -> AsyncIterator[tuple[T, R | Lost]]:
        """Each piece with its result, in the order they are done; the next is taken only when there is a free worker.

        A worker that dies is replaced and its piece tried again. What a worker raises ends the work and is raised here.
        """

    async def close(self) -> None: ...
