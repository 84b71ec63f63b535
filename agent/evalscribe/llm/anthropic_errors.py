"""What each failure of the Anthropic SDK means: for this call, for all calls, or only for now.

401 402 403                       AccessError        ends the command
404                               UsageError         ends the command
no connection, after the retries  UnavailableError   ends the command
408 409 429 5xx 529, reset, late  Transient          tried again, then this call is given up
everything else                   CallFailed         this call is given up
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import anthropic
import httpx2

from evalscribe.chat import CallFailed
from evalscribe.errors import AccessError, EvalscribeError, UnavailableError, UsageError
from evalscribe.llm.transient import Transient

PASSING = frozenset({408, 409, 429, 499})
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
"""Causes that leave no connection to send anything over."""
LONGEST_MESSAGE = 200
TOO_LONG = ("prompt is too long", "context window", "context limit")
"""How the service words a 400 for a prompt beyond the context; it has no code of its own."""


class TooLong(CallFailed):
    """The prompt does not fit the model, and never will."""


def mapped(error: Exception, model: str, host: str) -> CallFailed | EvalscribeError:
    """The one place where an SDK's exception becomes ours; nothing of the request is kept in it."""
    if isinstance(error, anthropic.APIStatusError):
        return _of_status(error, model, host)
    if isinstance(error, anthropic.APIConnectionError | TimeoutError):
        return _of_connection(error, host)
    if isinstance(error, anthropic.CredentialsError):
        return AccessError(f"No usable key for {host}: set ANTHROPIC_API_KEY.")
    if isinstance(error, anthropic.RetryableError):
        return Transient(f"{host} asked to try again")
    return CallFailed(f"{host} sent an answer that cannot be read ({type(error).__name__})")


def _of_status(error: anthropic.APIStatusError, model: str, host: str) -> CallFailed | EvalscribeError:
    status, said = error.status_code, _said(error)
    if error.type == "billing_error" or (error.error_code or "").endswith("spend_limit_reached"):
        status = 402
    match status:
        case 401 | 403:
            reason = "refused the key" if status == 401 else "does not allow this key to do that"
            return AccessError(f"{host} {reason} ({status}{said}). Check ANTHROPIC_API_KEY.")
        case 402:
            return AccessError(f"{host} wants to be paid ({error.status_code}{said}). See the account's billing.")
        case 404:
            name = model.partition("/")[2]
            return UsageError(f"{host} knows no model {name} (404{said}). Choose another with --judge PROVIDER/MODEL.")
        case 400 | 413 if status == 413 or any(words in said.lower() for words in TOO_LONG):
            return TooLong(f"the question is too long for {host} ({status}{said})", free=True)
    if status in PASSING or status >= 500:
        name = "is overloaded" if status == 529 else "limits the rate" if status == 429 else "failed"
        return Transient(f"{host} {name} ({status}{said})", free=True, after=retry_after(error.response.headers))
    if 200 <= status < 300:
        return CallFailed(f"{host} broke off its answer ({status}{said})")
    return CallFailed(f"{host} turned the question away ({status}{said})", free=True)


def _of_connection(error: anthropic.APIConnectionError | TimeoutError, host: str) -> Transient:
    if isinstance(error.__cause__, NEVER_SENT):
        ends_all = UnavailableError(f"{host} cannot be reached. Check the network and ANTHROPIC_BASE_URL.")
        return Transient(f"{host} cannot be reached", free=True, ends_all=ends_all)
    if isinstance(error, anthropic.APITimeoutError | TimeoutError):
        return Transient(f"{host} did not answer in time")
    return Transient(f"{host} closed the connection without an answer")


def _said(error: anthropic.APIStatusError) -> str:
    """The service's own words in one short line; nothing where it sent a page instead."""
    words = " ".join(error.api_message.split()) if isinstance(error.api_message, str) else ""
    return f": {words[:LONGEST_MESSAGE]}" if words else ""


def retry_after(headers: httpx2.Headers) -> float | None:
    """Seconds to wait, from `retry-after` in seconds or as a date; None where there is none that can be read."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds()) if moment.tzinfo else None
