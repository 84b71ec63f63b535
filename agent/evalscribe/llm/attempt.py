"""What one attempt at one answer is, whoever is asked: bounded in time, its failure ours, without the key."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlsplit

from evalscribe.chat import CallFailed
from evalscribe.errors import UsageError

T = TypeVar("T")
F = TypeVar("F", bound=Exception)
CONNECT_S = 10.0


async def attempt(work: Awaitable[T], timeout_s: float, mapped: Callable[[Exception], Exception]) -> T:
    """The one place where an SDK's exception becomes ours: raises what `mapped` makes of it."""
    try:
        async with asyncio.timeout(timeout_s):
            return await work
    except Exception as error:
        # `from None`: the SDK's exception holds the request, and with it the key.
        raise mapped(error) from None


def without_key(failure: F, key: str) -> F:
    failure.args = tuple(str(arg).replace(key, "[key]") if key else arg for arg in failure.args)
    if isinstance(failure, CallFailed):
        failure.reason = failure.args[0]
    return failure


def host_of(base_url: str, name: str) -> str:
    """Host and port as they may be shown. Raises `UsageError` where the URL is none, or holds a password."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise UsageError(f"{name} must be https://host[:port][/path], without user or password")
    return parts.netloc


def sendable(text: str) -> str:
    """Without lone surrogates, which no JSON body in UTF-8 can hold; two that make a character are that character."""
    if text.isascii():
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return paired.encode("utf-8", "replace").decode("utf-8")
