"""Whether what is configured can be reached."""

from collections.abc import Awaitable, Callable, Mapping

from evalscribe.errors import EvalscribeError
from evalscribe.ids import Frozen

Attempt = Callable[[], Awaitable[str]]


class Check(Frozen):
    """One thing that was tried."""

    name: str
    ok: bool
    detail: str


async def checks(attempts: Mapping[str, Attempt]) -> tuple[Check, ...]:
    """How each attempt went: what it says, or the error that ended it."""
    return tuple([await _tried(name, attempt) for name, attempt in attempts.items()])


async def _tried(name: str, attempt: Attempt) -> Check:
    try:
        return Check(name=name, ok=True, detail=await attempt())
    except EvalscribeError as error:
        return Check(name=name, ok=False, detail=str(error).split("\n")[0])
