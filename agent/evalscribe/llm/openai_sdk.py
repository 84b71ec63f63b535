"""Create clients of the OpenAI SDK and map its errors. This module is imported only when the first call is made."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import openai
from httpx2 import Request
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from evalscribe.errors import EvalscribeError
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
from evalscribe.llm.completion import StreamError
from evalscribe.model.chat import CallFailed, Usage
from evalscribe.settings.http import explain_connection_errors, limit_answers, model_limits

NO_KEY = "none"


def open_client(key: str, base_url: str) -> AsyncOpenAI:
    """Create a client. `key` is empty if the server does not need one."""
    hooks: dict[str, list[Callable[..., Awaitable[Any]]]] = {
        "request": [] if key else [_without_authorization],
        "response": [limit_answers(model_limits)],
    }
    with explain_connection_errors():
        # Redirects are not followed, because a redirect could send the evidence to a host that nobody chose.
        connections = DefaultAsyncHttpxClient(follow_redirects=False, event_hooks=hooks)
    client = AsyncOpenAI(
        # The SDK does not accept an empty key.
        api_key=key or NO_KEY,
        # Without these arguments, the SDK would read them from the environment.
        admin_api_key="",
        webhook_secret="",
        base_url=base_url,
        # Retries of the SDK would not be charged to the budget.
        max_retries=0,
        http_client=connections,
    )
    # The SDK has read OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS from the environment. It would send
    # them to any host, and they can contain a secret.
    client.organization = client.project = None
    client._custom_headers = {}
    return client


async def _without_authorization(request: Request) -> None:
    # The SDK always sets this header, even without a key.
    request.headers.pop("authorization", None)


_DELAY = re.compile(r'"retryDelay": ?"([0-9]+(?:\.[0-9]+)?)s"')
"""Matches the number of seconds that Google asks the caller to wait. Google sends this number in the body of the
response."""
NO_STATUS = 500
"""HTTP status that is assumed for an error without a status, so that the call is retried."""


def map_openai_error(error: Exception, target: CallTarget) -> CallFailed | EvalscribeError:
    """Return the exception that is raised in place of an error of the SDK.

    The exception contains nothing of the request, because the request includes the key.
    """
    # Checked first, because the SDK wraps this error in a connection error, which would be retried.
    if size_error := map_size_error(error, target):
        return size_error
    if isinstance(error, openai.APIStatusError):
        return map_response(parse_error_response(error.body, error.status_code, error.response.headers), target)
    if isinstance(error, openai.APIConnectionError | TimeoutError):
        return map_connection_error(error, target, late=isinstance(error, openai.APITimeoutError | TimeoutError))
    if isinstance(error, StreamError):
        return map_stream_error(error.error, target, Usage())
    if type(error) is openai.APIError:
        # The SDK raises exactly this class if a stream contains a chunk with an error.
        return map_stream_error(error.body, target, Usage())
    return unreadable_answer(error, target)


def parse_error_response(body: object, status: int, headers: Mapping[str, str]) -> ErrorResponse:
    """Parse the body of an error response."""
    fields = _fields(body)
    details = json.dumps(fields.get("details") or fields.get("metadata") or "", default=str)
    kinds = (fields.get("code"), fields.get("type"), fields.get("status"), fields.get("param"))
    delay = _DELAY.search(details)
    return ErrorResponse(
        status=status,
        words=one_short_line(fields.get("message")),
        code=" ".join(str(kind) for kind in kinds if kind) + (" flagged" if "flagged_input" in details else ""),
        after=_after(headers) or (float(delay[1]) if delay else None),
    )


def map_stream_error(error: object, target: CallTarget, usage: Usage) -> CallFailed | EvalscribeError:
    """Return the exception that is raised for an error that arrived with status 200.

    If the code of the error is an HTTP status, this status is used. The call does not count as free, because the
    service might have worked before it failed.
    """
    code = _fields(error).get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else NO_STATUS
    failure = map_response(parse_error_response(error, status, {}), target)
    if isinstance(failure, CallFailed):
        failure.usage, failure.free = usage, False
    return failure


def _after(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1000)
    except ValueError:
        return retry_after(headers)


def _fields(body: object) -> dict[str, Any]:
    # Google sends a list that contains one error. vLLM sends the error without an `error` object around it.
    if isinstance(body, list) and body:
        return _fields(body[0])
    if isinstance(body, dict):
        inner = body.get("error")
        return _fields(inner) if isinstance(inner, dict | list) else _with_message(body, inner)
    # HTML in place of an error is not repeated to the user.
    return {"message": body} if isinstance(body, str) and "<" not in body else {}


def _with_message(body: dict[str, Any], inner: object) -> dict[str, Any]:
    return {**body, "message": inner} if isinstance(inner, str) else body
