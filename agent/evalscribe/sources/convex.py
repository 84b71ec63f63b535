"""A Convex deployment over its HTTP API."""

import asyncio
import random
from collections.abc import Mapping
from typing import Literal

import httpx2
from pydantic import SecretStr

from evalscribe.errors import DataError, UnavailableError
from evalscribe.http_limits import MIB, AnswerLimits, AnswerTooLarge, limit_answers
from evalscribe.ids import Frozen
from evalscribe.settings.connections import as_environment_says
from evalscribe.sources.deployment import DeploymentPayloads, FunctionFailed, NoAnswer, refuses_access
from evalscribe.sources.json_value import Members, optional_text, parse
from evalscribe.sources.links import Links
from evalscribe.sources.payload_source import PayloadSource
from evalscribe.sources.shown import shown

LARGEST = 64 * MIB
"""Most bytes of one answer, the same as for a snapshot file. Convex limits a result to 16 MiB, and an escape such as
`\\u00e9` takes three times the bytes of its character."""
SHORTEST_KEY = 12
"""Characters; less than that may be a word."""
_RETRIED = (408, 425, 429, 500, 502, 503, 504)
_REFUSED = (401, 403)


class Patience(Frozen):
    """How long to wait for one call, in seconds, and how often to try."""

    attempts: int = 4
    first_pause: float = 0.5
    """Doubles with every attempt."""
    longest_pause: float = 20.0
    """Also bounds what a server asks for with retry-after."""
    connect: float = 10.0
    read: float = 60.0
    """Without a byte."""
    whole: float = 180.0
    """For the call with all its attempts and pauses."""


def open_convex(
    url: str, key: SecretStr | None, run_id: str, links: Links, patience: Patience | None = None, concurrency: int = 8
) -> PayloadSource:
    functions = ConvexHttp(url, key, patience or Patience(), concurrency)
    return PayloadSource(DeploymentPayloads(functions, run_id), links, functions.where)


class _TryAgain(Exception):
    """Overload or a broken connection; `pause` is what the server asked for."""

    def __init__(self, reason: str, pause: float | None = None, unreachable: bool = False) -> None:
        super().__init__(reason)
        self.pause = pause
        self.unreachable = unreachable


class ConvexHttp:
    """Calls functions by POST (`deployment.Functions`). The key goes to `url` only: redirects are not followed."""

    chosen_by = "--deployment"

    def __init__(self, url: str, key: SecretStr | None, patience: Patience, concurrency: int = 8) -> None:
        self.where = url
        self.has_key = key is not None
        self._secret = key.get_secret_value() if key else ""
        self._ours = [part for part in (self._secret, self._secret.partition("|")[2]) if len(part) >= SHORTEST_KEY]
        self._patience = patience
        self._slots = asyncio.Semaphore(concurrency)
        with as_environment_says():
            self._client = httpx2.AsyncClient(
                timeout=httpx2.Timeout(patience.read, connect=patience.connect, pool=None),
                headers={"Authorization": f"Convex {self._secret}"} if key else {},
                follow_redirects=False,
                event_hooks={"response": [limit_answers(AnswerLimits(whole=LARGEST))]},
            )

    async def call(self, kind: Literal["query", "action"], path: str, args: dict[str, str]) -> object:
        """See `Functions`. At most `concurrency` calls run at once; every retry is inside one bound."""
        body: dict[str, object] = {"path": path, "args": args, "format": "json"}
        async with self._slots:
            try:
                async with asyncio.timeout(self._patience.whole):
                    return await self._persist(f"{self.where}/api/{kind}", body)
            except TimeoutError:
                raise NoAnswer(f"no whole answer within {self._patience.whole:g} s") from None

    async def close(self) -> None:
        await self._client.aclose()

    async def _persist(self, url: str, body: Mapping[str, object]) -> object:
        for attempt in range(1, self._patience.attempts + 1):
            try:
                status, content = await self._post(url, body)
                return self._value(status, content)
            except _TryAgain as failure:
                if attempt == self._patience.attempts:
                    raise self._given_up(failure) from None
                await asyncio.sleep(self._pause(attempt, failure))
        raise AssertionError("no attempt was allowed")

    def _given_up(self, failure: _TryAgain) -> Exception:
        if not failure.unreachable:
            return NoAnswer(str(failure))
        return UnavailableError(f"{self.where} cannot be reached: {failure}\ncheck the network and --deployment")

    def _pause(self, attempt: int, failure: _TryAgain) -> float:
        grown: float = self._patience.first_pause * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)  # noqa: S311
        return min(max(grown, failure.pause or 0), self._patience.longest_pause)

    async def _post(self, url: str, body: Mapping[str, object]) -> tuple[int, bytes]:
        try:
            async with self._client.stream("POST", url, json=body) as response:
                content = self._without_key(await response.aread())
                if response.status_code in _RETRIED:
                    reason = f"{response.status_code} {self._error(content)}"
                    raise _TryAgain(reason, _seconds(response.headers.get("retry-after")))
                if response.is_redirect:
                    raise UnavailableError(
                        f"{self.where} redirects elsewhere: name the deployment itself (--deployment)"
                    )
                return response.status_code, content
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            raise _TryAgain(shown(str(error)) or type(error).__name__, unreachable=True) from None
        except AnswerTooLarge as error:
            raise NoAnswer(f"the deployment sent {error}") from None
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise _TryAgain(_broken(error)) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise UnavailableError(f"{self.where} cannot be called: {shown(str(error), self._secret)}") from None

    def _without_key(self, content: bytes) -> bytes:
        """A deployment that sends our own key back must not get it into a snapshot or report."""
        for part in self._ours:
            content = content.replace(part.encode(), b"[redacted:key]")
        return content

    def _value(self, status: int, content: bytes) -> object:
        """What the function returned, out of an answer that will not get better by asking again."""
        if status in _REFUSED or (status == 400 and b"InvalidAdminKey" in content):
            raise refuses_access(self.where, self._error(content) or str(status), has_key=self.has_key)
        answer = _members(content)
        if answer is None or (status < 400 and answer.get("status") not in ("success", "error")):
            raise UnavailableError(
                f"{self.where} answers {status} with what is no Convex deployment's: {self._error(content)}\n"
                "name the deployment itself (https://NAME.convex.cloud), not the dashboard or the site"
            )
        if answer.get("status") == "error":
            raise FunctionFailed(shown(optional_text(answer, "errorMessage") or "no reason given", self._secret))
        if status >= 400:
            raise UnavailableError(f"{self.where} answers {status} {self._error(content)}")
        return answer.get("value")

    def _error(self, content: bytes) -> str:
        """`code: message` of an error, or the beginning of whatever else it is."""
        answer = _members(content) or {}
        code, message = optional_text(answer, "code"), optional_text(answer, "message")
        text = ": ".join(filter(None, (code, message))) or content[:200].decode("utf-8", "replace")
        return shown(text, self._secret)


def _members(content: bytes) -> Members | None:
    try:
        answer = parse(content)
    except DataError:
        return None
    return answer if isinstance(answer, dict) else None


def _seconds(retry_after: str | None) -> float | None:
    """Retry-after in seconds; its other form, a date, is not worth a clock."""
    return float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else None


def _broken(error: httpx2.RequestError) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "the deployment stopped answering"
    return f"the connection broke ({shown(str(error)) or type(error).__name__})"
