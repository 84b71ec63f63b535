"""Whether what is configured can be reached."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from evalscribe.errors import EvalscribeError
from evalscribe.ids import Frozen

State = Literal["ok", "not set", "NOT OK"]


class Unset(Frozen):
    """Nothing is configured, so there is nothing to try."""

    detail: str


Attempt = Callable[[], Awaitable[str | Unset]]


class Check(Frozen):
    """One thing that was to be tried."""

    name: str
    state: State
    detail: str


async def checks(attempts: Mapping[str, Attempt]) -> tuple[Check, ...]:
    """How each attempt went: what it says, or the error that ended it."""
    return tuple([await _tried(name, attempt) for name, attempt in attempts.items()])


async def _tried(name: str, attempt: Attempt) -> Check:
    try:
        said = await attempt()
    except EvalscribeError as error:
        return Check(name=name, state="NOT OK", detail=str(error).split("\n")[0])
    if isinstance(said, Unset):
        return Check(name=name, state="not set", detail=said.detail.split("\n")[0])
    return Check(name=name, state="ok", detail=said)
