"""Python functions as targets."""

from pydantic import JsonValue

from evalscribe.model.target import TargetCall, TargetFailure, TargetReply
from evalscribe.targets import envelope
from evalscribe.targets.host import Host


class PythonTarget:
    """`Target` of one function in a host, which it closes."""

    def __init__(self, address: str, host: Host) -> None:
        self._address = address
        self._host = host

    async def begin(self) -> None:
        """Start its process ahead of the first call. Raises `UsageError` where it cannot be started."""
        try:
            await self._host.begin(self._address, "component")
        except BaseException:
            await self._host.close()
            raise

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        """Raises `UsageError` where the function cannot be imported."""
        payload: JsonValue = {"input": call.input, "context": _context(call)}
        said = await self._host.call(self._address, "component", payload, call.timeout_s)
        if said.timed_out:
            return envelope.late(call.timeout_s, said.log)
        if said.error is not None:
            log = "\n".join(filter(None, (said.log, said.traceback)))
            return envelope.failed(said.error, log=log, duration_ms=said.duration_ms)
        return envelope.reply(said.value, log=said.log, duration_ms=said.duration_ms)

    async def close(self) -> None:
        await self._host.close()


def _context(call: TargetCall) -> dict[str, JsonValue]:
    told = call.model_dump(mode="json", include={"run_id", "item_key", "repetition", "metadata"})
    return {**told, "idempotency_key": call.idempotency_key}
