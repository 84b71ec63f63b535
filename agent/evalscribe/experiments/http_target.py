"""Send requests to an HTTP address as a target, with retries."""

import asyncio
import os
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from time import perf_counter
from urllib.parse import quote, urlsplit

import httpx2

from evalscribe.errors import AccessError, EvalscribeError, UsageError
from evalscribe.experiments import targets
from evalscribe.ids import canonical_json
from evalscribe.model.target import TargetCall, TargetFailure, TargetReply
from evalscribe.settings.http import AnswerLimits, explain_connection_errors, limit_answers
from evalscribe.text import printable

LARGEST = 16 * 1024 * 1024
"""Maximum size of a response, in bytes."""
LOG = 20_000
"""Maximum number of characters of an error response that are kept."""
CONNECT_S = 10.0
ATTEMPTS = 4
FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 30.0
"""Maximum seconds to wait before a retry. If the service asks for a longer wait, the trial fails."""
BUSY_STATUSES = (429, 503)
UNESCAPED = "/:@!$&'()*+,;=~#[]{}|<>? "
"""Characters that stay unescaped in an idempotency key, besides letters and digits."""
SHORTEST_SECRET = 6
"""Minimum number of characters of a header value that is redacted from responses. Shorter values are not treated as
secrets."""
# With these errors, no response has begun, so the request is sent again, with the same idempotency key.
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.RemoteProtocolError)


class RetryableError(Exception):
    """An attempt failed, but might succeed if it is repeated."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
        """Seconds to wait before a retry, as requested by the service; None if it states no number of seconds."""


class HttpTarget:
    """`Target` that sends requests to one HTTP address."""

    def __init__(self, url: str, headers: Mapping[str, str], concurrency: int) -> None:
        """Create a target. `headers` maps the names of headers to values that are sent unchanged."""
        self._url = validate_url(url)
        self._secrets = [value for value in headers.values() if len(value) >= SHORTEST_SECRET]
        with explain_connection_errors():
            self._client = httpx2.AsyncClient(
                headers={**headers, "Content-Type": "application/json"},
                cookies=_no_cookies(),
                # `answer` limits the whole call, so the client needs a limit only for connecting.
                timeout=httpx2.Timeout(None, connect=CONNECT_S),
                limits=httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
                # A redirect would send the headers, which can contain keys, to an address that nobody named.
                follow_redirects=False,
                # The limit applies after decompression, because some megabytes of gzip can expand to gigabytes.
                event_hooks={"response": [limit_answers(AnswerLimits(body=LARGEST))]},
            )

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        """Call the service.

        Raises `AccessError` or `UsageError` for a status that would stay the same after a retry: 401, 403, 404, 405,
        3xx.
        """
        start_time = perf_counter()
        try:
            async with asyncio.timeout(call.timeout_s):
                status, text = await self._send_with_retries(call)
        except TimeoutError:
            return targets.timeout_reply(call.timeout_s)
        except (RetryableError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            return targets.failed_reply(
                self._redact_headers(f"{self._url}: {_error_text(error)}"), duration_ms=_elapsed_ms(start_time)
            )
        if status >= 400:
            return targets.failed_reply(
                f"{self._url} answered {status}", log=text[-LOG:], duration_ms=_elapsed_ms(start_time)
            )
        return targets.parse_reply(targets.parse_output(text), duration_ms=_elapsed_ms(start_time))

    async def close(self) -> None:
        await self._client.aclose()

    async def reachable(self, timeout_s: float) -> str:
        """Send a GET request and describe the response. Raises `UsageError` if the address does not respond."""
        try:
            async with asyncio.timeout(timeout_s), self._client.stream("GET", self._url) as response:
                return f"GET returned {response.status_code}"
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            message = self._redact_headers(_error_text(error) or "no answer")
            raise UsageError(f"{self._url} did not answer: {message}") from None

    async def _send_with_retries(self, call: TargetCall) -> tuple[int, str]:
        """Return the status and body of the response. If all attempts fail, the error of the last attempt is raised."""
        body = canonical_json(_body(call)).encode("utf-8", "replace")
        for attempt in range(ATTEMPTS):
            try:
                return await self._send_once(body, quote(call.idempotency_key, safe=UNESCAPED))
            except (RetryableError, *_UNSENT) as error:
                wait = max(FIRST_WAIT_S * 3.0**attempt, getattr(error, "retry_after_s", None) or 0.0)
                if attempt == ATTEMPTS - 1 or wait > LONGEST_WAIT_S:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def _send_once(self, body: bytes, key: str) -> tuple[int, str]:
        request = self._client.build_request("POST", self._url, content=body, headers={"Idempotency-Key": key})
        response = await self._client.send(request, stream=True)
        try:
            text = self._redact_headers((await response.aread()).decode("utf-8", "replace"))
        except httpx2.RemoteProtocolError as error:
            # The service has already handled the request, so a retry would run it twice.
            raise httpx2.ReadError(str(error)) from None
        finally:
            await response.aclose()
        if response.status_code in BUSY_STATUSES:
            raise RetryableError(f"answered {response.status_code}", _retry_after(response))
        fatal = _fatal_error(response, self._url)
        if fatal:
            raise fatal
        return response.status_code, text

    def _redact_headers(self, text: str) -> str:
        # A service might repeat a header in an error message.
        for secret in self._secrets:
            text = text.replace(secret, "[redacted:header]")
        return text


def _no_cookies() -> CookieJar:
    # A cookie that the service sets in one trial must not be sent in another.
    return CookieJar(DefaultCookiePolicy(allowed_domains=()))


def validate_url(url: str) -> str:
    """Validate an address. Raises `UsageError` if the address is not an HTTP URL, or contains a user or password."""
    try:
        parts = urlsplit(url)
        # `urlsplit` removes line ends silently. `parts.port` is read because it raises `ValueError` for an invalid
        # port; without a port, it is None.
        is_valid = url.isprintable() and parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        is_valid = None
    if not is_valid:
        raise UsageError(f"{printable(url)} is not an address: use http://HOST[:PORT]/PATH or https://…")
    if parts.username or parts.password:
        raise UsageError(
            "an address must not contain a user or password: use `header` NAME=ENV_VAR", fields=("header",)
        )
    return url


def header_values(names: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Read header values from environment variables. Raises `UsageError` if any of the variables is not set."""
    missing = [variable for variable in names.values() if not environ.get(variable)]
    if missing:
        raise UsageError(
            f"environment variable {', '.join(missing)} is not set; a header of the component needs its value"
        )
    values = {name: environ[variable].strip() for name, variable in names.items()}
    invalid = [names[name] for name, value in values.items() if not (value.isascii() and value.isprintable())]
    if invalid:
        raise UsageError(
            f"the value of {', '.join(invalid)} cannot be used as a header, because it has invalid characters"
        )
    return values


def _body(call: TargetCall) -> dict[str, object]:
    return call.model_dump(mode="json", include={"input", "metadata", "run_id", "item_key", "repetition"})


def _fatal_error(response: httpx2.Response, url: str) -> EvalscribeError | None:
    """Return an error if the response would be the same for every trial, else None."""
    status = response.status_code
    if status in (401, 403):
        return AccessError(
            f"{url} denied access ({status}). Check the headers of the component (`header`).", fields=("header",)
        )
    if status in (404, 405):
        return UsageError(f"{url} does not accept POST ({status}). Check the address of the component.")
    if 300 <= status < 400:
        return UsageError(f"{url} redirects ({status}); redirects are not followed. Give the final address.")
    return None


def _retry_after(response: httpx2.Response) -> float | None:
    """Return the number of seconds in the header Retry-After.

    The result is None if the header is missing or contains a date. Dates are not supported.
    """
    try:
        return min(1e6, max(0.0, float(response.headers.get("retry-after", ""))))
    except ValueError:
        return None


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _elapsed_ms(start_time: float) -> float:
    return (perf_counter() - start_time) * 1000
