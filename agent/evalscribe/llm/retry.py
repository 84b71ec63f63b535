"""Trying again what may pass, within a bound on attempts and on time."""

import asyncio

from evalscribe.chat import CallFailed, Reply, Request, Usage
from evalscribe.ids import Frozen
from evalscribe.llm.pause import Pause
from evalscribe.llm.transient import Transient
from evalscribe.ports import Model, OnText


class Patience(Frozen):
    """How long one answer is tried for."""

    attempts: int = 5
    first_wait_s: float = 0.5
    longest_wait_s: float = 8.0
    total_s: float = 120.0
    """No wait ends later than this after the first attempt began, a service's retry-after included."""

    def wait(self, failures: int) -> float:
        """Seconds to wait after so many failed attempts, where the service asks for nothing longer."""
        return min(self.longest_wait_s, self.first_wait_s * 2.0 ** (failures - 1))


class Persistent:
    """A `ports.Model` that repeats another's transient failures."""

    def __init__(self, model: Model, patience: Patience | None = None, pause: Pause | None = None) -> None:
        """`pause`: shared with the other models of the same provider."""
        self.id = model.id
        self.context_tokens = model.context_tokens
        self._model = model
        self._patience = patience or Patience()
        self._shared = pause or Pause()

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        await self._shared.over()
        deadline = asyncio.get_running_loop().time() + self._patience.total_s
        lost = Usage()
        for failures in range(1, self._patience.attempts + 1):
            try:
                reply = await self._model.complete(request, on_text)
                self._shared.answered()
                return reply.model_copy(update={"usage": lost + reply.usage})
            except Transient as error:
                lost += error.usage
                await self._pause(error, failures, deadline, lost)
            except CallFailed as error:
                error.usage, error.free = lost + error.usage, error.free and not lost.calls
                raise  # as what it is: whether the budget had no room concerns others
        raise AssertionError("the last attempt returns or raises")

    def forget(self, request: Request) -> None:
        self._model.forget(request)

    async def _pause(self, error: Transient, failures: int, deadline: float, lost: Usage) -> None:
        """Wait until the next attempt; raises what the failure comes to where there is none."""
        wait = max(error.after or 0.0, self._patience.wait(failures))
        if error.limited and wait <= self._patience.total_s:
            # Nobody waits for what no call has the patience for: each is told by itself.
            self._shared.refused(wait)
        late = asyncio.get_running_loop().time() + max(wait, self._shared.left_s()) > deadline
        if not late and failures < self._patience.attempts:
            await asyncio.sleep(wait)
            await self._shared.over()
            return
        if error.ends_all is not None:
            raise error.ends_all from None
        asked = f", which asks to wait {error.after:.0f} s" if late and error.after else ""
        tried = "once" if failures == 1 else f"{failures} times"
        raise CallFailed(f"{error.reason}{asked} (tried {tried})", lost, free=error.free and not lost.calls) from None

    async def close(self) -> None:
        await self._model.close()
