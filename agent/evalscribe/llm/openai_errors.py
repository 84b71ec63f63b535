"""What each failure of the OpenAI SDK means (`failures`), and what an error inside an answer does."""

import json
import re
from collections.abc import Mapping
from typing import Any

import openai

from evalscribe.chat import CallFailed, Usage
from evalscribe.errors import EvalscribeError
from evalscribe.llm.completion_stream import ErrorInside
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

_DELAY = re.compile(r'"retryDelay": ?"([0-9]+(?:\.[0-9]+)?)s"')
"""How Google asks to wait: in the body."""
NO_STATUS = 500
"""Of an error that has none: it may pass."""


def mapped(error: Exception, asked: Asked) -> CallFailed | EvalscribeError:
    """Nothing of the request is kept in it."""
    if refused := of_size(error, asked):
        return refused
    if isinstance(error, openai.APIStatusError):
        return of_answer(refusal(error.body, error.status_code, error.response.headers), asked)
    if isinstance(error, openai.APIConnectionError | TimeoutError):
        return of_connection(error, asked, late=isinstance(error, openai.APITimeoutError | TimeoutError))
    if isinstance(error, ErrorInside):
        return of_error_inside(error.error, asked, Usage())
    if type(error) is openai.APIError:
        # The SDK's own word for an error among the chunks of a stream.
        return of_error_inside(error.body, asked, Usage())
    return unreadable(error, asked)


def refusal(body: object, status: int, headers: Mapping[str, str]) -> Refusal:
    """From the error's own object, or from what holds it: Google sends a list of one, vLLM no `error` around it."""
    fields = _fields(body)
    told = json.dumps(fields.get("details") or fields.get("metadata") or "", default=str)
    kinds = (fields.get("code"), fields.get("type"), fields.get("status"), fields.get("param"))
    delay = _DELAY.search(told)
    return Refusal(
        status=status,
        words=in_one_line(fields.get("message")),
        code=" ".join(str(kind) for kind in kinds if kind) + (" flagged" if "flagged_input" in told else ""),
        after=_after(headers) or (float(delay[1]) if delay else None),
    )


def of_error_inside(error: object, asked: Asked, usage: Usage) -> CallFailed | EvalscribeError:
    """Of an error that came with status 200; its code is the status that it should have had.

    Whoever answered may have worked before it failed: it is not free.
    """
    code = _fields(error).get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else NO_STATUS
    failure = of_answer(refusal(error, status, {}), asked)
    if isinstance(failure, CallFailed):
        failure.usage, failure.free = usage, False
    return failure


def _after(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1000)
    except ValueError:
        return retry_after(headers)


def _fields(body: object) -> dict[str, Any]:
    if isinstance(body, list) and body:
        return _fields(body[0])
    if isinstance(body, dict):
        within = body.get("error")
        return _fields(within) if isinstance(within, dict | list) else _worded(body, within)
    return {"message": body} if isinstance(body, str) and "<" not in body else {}


def _worded(body: dict[str, Any], within: object) -> dict[str, Any]:
    return {**body, "message": within} if isinstance(within, str) else body
