"""One batch on its way: submitted once, found again after a kill, waited for, read."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from evalscribe.chat import CallFailed
from evalscribe.errors import EvalscribeError, NotFoundError, UnavailableError
from evalscribe.ids import Frozen
from evalscribe.llm.batch_api import BatchApi, Gone, Outcome, Unsure
from evalscribe.llm.transient import Transient
from evalscribe.ports import Intent, Intents, Unanswered

if TYPE_CHECKING:
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

T = TypeVar("T")

SKEW = timedelta(hours=1)
"""How far the service's clock may be from ours."""
KEPT = timedelta(days=29)
"""How long the service keeps results."""


class Pace(Frozen):
    """How long to wait for what."""

    quiet_s: float = 2.0
    """A wave goes out when no call has joined it for so long."""
    most: int = 1000
    """Questions of one batch."""
    most_bytes: int = 32_000_000
    poll_s: float = 5.0
    longest_poll_s: float = 60.0
    settle_s: float = 30.0
    """A submission that was cut off may reach the service so much later."""
    failures: int = 8
    """How often in a row the service may fail to answer."""

    def wait(self, times: int, asked: float | None = None) -> float:
        """Seconds before trying again, after so many times and where the service asks for so much."""
        return min(self.longest_poll_s, max(asked or 0.0, self.poll_s * 1.5 ** min(times, 20)))


class Delivery:
    """What becomes of intents at the service."""

    def __init__(self, api: BatchApi, intents: Intents, pace: Pace) -> None:
        self._api = api
        self._intents = intents
        self._pace = pace

    async def submit(self, intent: Intent, params: Mapping[str, "MessageCreateParamsNonStreaming"]) -> str:
        """The id of the batch, stored. To be called by who has claimed the intent, once.

        Where a batch may have been made unseen, it is looked for before the next attempt. Raises `CallFailed` and
        `EvalscribeError`; the intent is then dropped, unless there may be a batch of it.
        """
        for failures in count(1):
            try:
                found: str | None = await self._api.create(params)
            except (Unsure, Transient) as error:
                await self._pause(error, failures)
                found = await self._found(intent) if isinstance(error, Unsure) else None
            except (CallFailed, EvalscribeError):
                self._intents.drop(intent.id)
                raise
            if found:
                self._intents.submitted(intent.id, found)
                return found
        raise AssertionError("the last attempt returns or raises")

    async def recovered(self, intent: Intent) -> str | None:
        """The batch of an intent that an earlier or another process has stored. None: there is none, it is dropped."""
        while True:
            with self._intents.claim(intent.id) as mine:
                now = self._intents.of(intent.keys[0])
                if now is None or now.id != intent.id or now.batch_id:
                    return now.batch_id if now and now.id == intent.id else None
                if mine:
                    return await self._looked_for(now)
            await asyncio.sleep(self._pace.wait(0))

    async def outcomes(self, intent: Intent, batch_id: str) -> AsyncGenerator[dict[str, Outcome], None]:
        """What the batch says in the end, stored before it is told, some at a time; after a failure from the start.

        Raises `Gone` where the results are too old to be there.
        """
        try:
            await self._ended(batch_id)
            for failures in count(1):
                try:
                    missing = set(intent.keys)
                    async with aclosing(self._api.results(batch_id)) as results:
                        async for some in results:
                            ours = {key: some[key] for key in some.keys() & missing}
                            missing -= ours.keys()
                            self._intents.settle(ours)
                            yield ours
                    nothing: Outcome = Unanswered(reason=f"{batch_id} says nothing of it", charged=True)
                    left_out = dict.fromkeys(missing, nothing)
                    self._intents.settle(left_out)
                    yield left_out
                    return
                except Transient as error:
                    await self._pause(error, failures)
        except Gone:
            if datetime.now(UTC) - intent.created > KEPT:
                self._intents.drop(intent.id)
                raise
            raise NotFoundError(
                f"the batch {batch_id} is not there, though it was sent {intent.created:%Y-%m-%d}: was it deleted, "
                "or sent with the key of another account?\nWithout --batch, its questions are asked one by one."
            ) from None

    async def _looked_for(self, intent: Intent) -> str | None:
        found = await self._found(intent)
        if found is None:
            self._intents.drop(intent.id)
        else:
            self._intents.submitted(intent.id, found)
        return found

    async def _found(self, intent: Intent) -> str | None:
        """Looked for twice: what was cut off may still be on its way."""
        found = await self._match(intent)
        if found is None:
            await asyncio.sleep(self._pace.settle_s)
            found = await self._match(intent)
        return found

    async def _match(self, intent: Intent) -> str | None:
        """The batch with the intent's questions among those that nobody knows; it names them only at its end."""
        known = self._intents.batch_ids()
        listed = await self._patiently(lambda: self._api.since(intent.created - SKEW))
        for one in listed:
            if one.id not in known and one.size == len(intent.keys) and await self._is_of(one.id, intent):
                return one.id
        return None

    async def _is_of(self, batch_id: str, intent: Intent) -> bool:
        keys = frozenset(intent.keys)
        try:
            await self._ended(batch_id)
            return await self._patiently(lambda: self._has_keys(batch_id, keys))
        except Gone:
            return False

    async def _has_keys(self, batch_id: str, keys: frozenset[str]) -> bool:
        seen: set[str] = set()
        async with aclosing(self._api.results(batch_id)) as results:
            async for some in results:
                seen |= some.keys()
                if not seen <= keys:
                    return False
        return seen == keys

    async def _ended(self, batch_id: str) -> None:
        for times in count():
            if await self._patiently(lambda: self._api.has_ended(batch_id)):
                return
            await asyncio.sleep(self._pace.wait(times))

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        for failures in count(1):
            try:
                return await call()
            except Transient as error:
                await self._pause(error, failures)
        raise AssertionError("the last attempt returns or raises")

    async def _pause(self, error: CallFailed, failures: int) -> None:
        """Wait until the next attempt; raises `UnavailableError` where there is none."""
        if failures >= self._pace.failures:
            raise UnavailableError(
                f"{error.reason} (tried {failures} times).\nRun the same again: what was sent is found, not sent again."
            ) from None
        await asyncio.sleep(self._pace.wait(failures, error.after if isinstance(error, Transient) else None))
