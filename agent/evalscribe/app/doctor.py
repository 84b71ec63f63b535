"""Whether what is configured can be reached."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Literal

from evalscribe.errors import AccessError, EvalscribeError, UnavailableError, UsageError
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
    exit_code: int = 0
    """Exit code of the error that ended it; 0 if there was none."""


_FIRST_TO_FIX = (UsageError.exit_code, AccessError.exit_code, UnavailableError.exit_code)
"""In this order, because a service behind a wrong setting or key cannot be reached either."""


def exit_code(checks: Iterable[Check]) -> int:
    """Return 0 if nothing is wrong, else the code of what to fix first: a setting, a key, a service, anything else."""
    codes = {check.exit_code for check in checks} - {0}
    return next((code for code in _FIRST_TO_FIX if code in codes), min(codes, default=0))


async def checks(attempts: Mapping[str, Attempt]) -> tuple[Check, ...]:
    """How each attempt went: what it says, or the error that ended it."""
    return tuple([await _tried(name, attempt) for name, attempt in attempts.items()])


async def _tried(name: str, attempt: Attempt) -> Check:
    try:
        said = await attempt()
    except EvalscribeError as error:
        detail = str(error).split("\n")[0]
        return Check(name=name, state="NOT OK", detail=detail, exit_code=error.exit_code)
    if isinstance(said, Unset):
        return Check(name=name, state="not set", detail=said.detail.split("\n")[0])
    return Check(name=name, state="ok", detail=said)
