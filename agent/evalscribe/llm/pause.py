"""When a provider limits the rate: one call waits by itself, after three refusals in a row all of them do."""

import asyncio

IN_A_ROW = 3


class Pause:
    """Shared by all calls to one provider, whichever model and stage they are for."""

    def __init__(self) -> None:
        self._refused = 0
        self._until = 0.0
        """On the loop's clock: when the longest wait ends that was asked for since the last answer."""
        self._answered = asyncio.Event()

    def refused(self, wait_s: float) -> None:
        """A call was one too many, and the next may come after so many seconds."""
        self._refused += 1
        self._until = max(self._until, asyncio.get_running_loop().time() + wait_s)

    def answered(self) -> None:
        """A call went through, so the others may go too."""
        self._refused, self._until = 0, 0.0
        self._answered.set()
        self._answered = asyncio.Event()

    def left_s(self) -> float:
        """Seconds for which nobody should call, as things are now."""
        if self._refused < IN_A_ROW:
            return 0.0
        return max(0.0, self._until - asyncio.get_running_loop().time())

    async def over(self) -> None:
        """Return once nobody has to wait, or as soon as a call went through."""
        while (left := self.left_s()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._answered.wait()
            except TimeoutError:
                continue
