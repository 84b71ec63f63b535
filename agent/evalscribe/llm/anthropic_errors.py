"""Map errors of the Anthropic SDK to evalscribe's exceptions."""

import anthropic
import httpx2

from evalscribe.errors import AccessError, EvalscribeError
from evalscribe.llm.attempt import (
    CallTarget,
    ErrorResponse,
    map_connection_error,
    map_response,
    map_size_error,
    one_short_line,
    retry_after,
    unreadable_answer,
)
from evalscribe.model.chat import CallFailed, TransientFailure

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
"""The HTTP status that corresponds to each type of error that can arrive in the middle of a stream."""


def map_anthropic_error(error: Exception, target: CallTarget) -> CallFailed | EvalscribeError:
    """Return the exception that is raised in place of an error of the SDK.

    The exception contains nothing of the request, because the request includes the key.
    """
    # Checked first, because the SDK wraps this error in a connection error, which would be retried.
    if size_error := map_size_error(error, target):
        return size_error
    if isinstance(error, anthropic.APIStatusError):
        return map_response(_refusal(error), target)
    if isinstance(error, anthropic.APIConnectionError | TimeoutError):
        return map_connection_error(error, target, late=isinstance(error, anthropic.APITimeoutError | TimeoutError))
    if isinstance(error, anthropic.CredentialsError):
        return AccessError(f"No usable key for {target.host}: set {target.provider.key_name}.")
    if isinstance(error, anthropic.RetryableError):
        return TransientFailure(f"{target.host} asked for a retry")
    if isinstance(error, httpx2.TransportError):
        # The SDK does not wrap errors that interrupt a stream.
        return map_connection_error(error, target, late=isinstance(error, httpx2.TimeoutException))
    return unreadable_answer(error, target)


def _refusal(error: anthropic.APIStatusError) -> ErrorResponse:
    # Waiting does not help if a spend limit was reached, so it counts as a missing payment.
    limit_reached = (error.error_code or "").endswith("spend_limit_reached")
    # An error in the middle of a stream has the status of the stream, 200.
    status = IN_A_STREAM.get(str(error.type), error.status_code) if error.status_code == 200 else error.status_code
    return ErrorResponse(
        status=status,
        words=one_short_line(error.api_message),
        code="billing_error" if limit_reached else str(error.type or ""),
        after=retry_after(error.response.headers),
    )
