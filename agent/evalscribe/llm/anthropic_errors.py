"""What each failure of the Anthropic SDK means (`failures`)."""

import anthropic

from evalscribe.chat import CallFailed
from evalscribe.errors import AccessError, EvalscribeError
from evalscribe.llm.failures import (
    Asked,
    Refusal,
    in_one_line,
    of_answer,
    of_connection,
    retry_after,
    unreadable,
)
from evalscribe.llm.transient import Transient


def mapped(error: Exception, asked: Asked) -> CallFailed | EvalscribeError:
    """Nothing of the request is kept in it."""
    if isinstance(error, anthropic.APIStatusError):
        return of_answer(_refusal(error), asked)
    if isinstance(error, anthropic.APIConnectionError | TimeoutError):
        return of_connection(error, asked, late=isinstance(error, anthropic.APITimeoutError | TimeoutError))
    if isinstance(error, anthropic.CredentialsError):
        return AccessError(f"No usable key for {asked.host}: set {asked.provider.key_name}.")
    if isinstance(error, anthropic.RetryableError):
        return Transient(f"{asked.host} asked to try again")
    return unreadable(error, asked)


def _refusal(error: anthropic.APIStatusError) -> Refusal:
    spent = (error.error_code or "").endswith("spend_limit_reached")
    return Refusal(
        status=error.status_code,
        words=in_one_line(error.api_message),
        code="billing_error" if spent else str(error.type or ""),
        after=retry_after(error.response.headers),
    )
