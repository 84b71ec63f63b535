"""A `ports.Source` over anything that can give the two payloads of a run."""

import asyncio
from typing import Protocol

from evalscribe.errors import DataError
from evalscribe.evidence import Evidence, Unreadable
from evalscribe.json_clean import clean
from evalscribe.redaction import redact_json
from evalscribe.run import Eval, Run
from evalscribe.sources.links import Links
from evalscribe.sources.payload import decode_evidence, decode_run, refusal


class OneEvalFailed(Exception):
    """The payload of one eval cannot be had, for a reason that leaves the others alone."""


class Payloads(Protocol):
    """Raw answers, as the suite's own functions give them."""

    async def summary(self) -> object:
        """The run and its failed evals. Raises `EvalscribeError`."""

    async def debug(self, eval_id: str) -> object:
        """What is known of one eval. Raises `OneEvalFailed`, or `EvalscribeError` for what concerns all of them."""

    async def close(self) -> None: ...


class PayloadSource:
    """Reads, redacts, decodes. `summary` and `payload` hand out what was read, for a snapshot."""

    def __init__(self, payloads: Payloads, links: Links, origin: str) -> None:
        """`origin` names the summary where it is no good."""
        self._payloads = payloads
        self._links = links
        self._origin = origin

    async def run(self) -> Run:
        summary = await self.summary()
        try:
            return decode_run(summary, self._links)
        except DataError as error:
            raise DataError(f"{self._origin}: {error}") from None

    async def evidence(self, eval: Eval) -> Evidence | Unreadable:
        payload = await self.payload(eval)
        return payload if isinstance(payload, Unreadable) else decode_evidence(payload, eval)

    async def summary(self) -> object:
        """The redacted answer that `run` decodes."""
        return await asyncio.to_thread(_safe, await self._payloads.summary())

    async def payload(self, eval: Eval) -> object | Unreadable:
        """The redacted answer that `evidence` decodes."""
        try:
            payload = await asyncio.to_thread(_safe, await self._payloads.debug(eval.id))
        except (OneEvalFailed, DataError) as failure:
            return Unreadable(eval=eval, reason=str(failure))
        return refusal(payload, eval) or payload

    async def close(self) -> None:
        await self._payloads.close()


def _safe(payload: object) -> object:
    return redact_json(clean(payload))
