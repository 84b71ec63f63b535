"""What each failure of the Anthropic SDK means (`failures`)."""

import anthropic
import httpx2

from evalscribe.chat import CallFailed
from evalscribe.errors import AccessError, EvalscribeError
from evalscribe.llm.failures import (
    Asked,
    Refusal,
    in_one_line,
    of_answer,
    of_connection,
    of_size,
    retry_after,
    unreadable,
)
from evalscribe.llm.transient import Transient

IN_A_STREAM = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that an error would have had, had it not come in the middle of an answer."""


def mapped(error: Exception, asked: Asked) -> CallFailed | EvalscribeError:
    """Nothing of the request is kept in it."""
    if refused := of_size(error, asked):
        return refused
    if isinstance(error, anthropic.APIStatusError):
        return of_answer(_refusal(error), asked)
    if isinstance(error, anthropic.APIConnectionError | TimeoutError):
        return of_connection(error, asked, late=isinstance(error, anthropic.APITimeoutError | TimeoutError))
    if isinstance(error, anthropic.CredentialsError):
        return AccessError(f"No usable key for {asked.host}: set {asked.provider.key_name}.")
    if isinstance(error, anthropic.RetryableError):
        return Transient(f"{asked.host} asked to try again")
    if isinstance(error, httpx2.TransportError):
        # The SDK gives what breaks a stream as it came.
        return of_connection(error, asked, late=isinstance(error, httpx2.TimeoutException))
    return unreadable(error, asked)


def _refusal(error: anthropic.APIStatusError) -> Refusal:
    spent = (error.error_code or "").endswith("spend_limit_reached")
    status = IN_A_STREAM.get(str(error.type), error.status_code) if error.status_code == 200 else error.status_code
    return Refusal(
        status=status,
        words=in_one_line(error.api_message),
        code="billing_error" if spent else str(error.type or ""),
        after=retry_after(error.response.headers),
    )
