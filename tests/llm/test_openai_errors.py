"""Mapping of errors from chat-completions services, in the format of each."""

import inspect
from typing import Any

import httpx2
import openai
import pytest

from evalscribe.errors import AccessError, EvalscribeError, UnavailableError, UsageError
from evalscribe.llm.attempt import CallTarget, PromptTooLong, map_response
from evalscribe.llm.openai_sdk import map_openai_error, map_stream_error, parse_error_response
from evalscribe.model.chat import CallFailed, TransientFailure, Usage
from evalscribe.settings.access import OPENROUTER

KEY = "sk-or-secret-123456"
ASKED = CallTarget(provider=OPENROUTER, model="vendor/model-x", host="127.0.0.1")
RETRY_INFO = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]


@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (429, {"code": "insufficient_quota", "message": "You exceeded your current quota"}, AccessError, "billing"),
        (429, {"code": "rate_limit_exceeded", "message": "Slow down"}, TransientFailure, "limits the rate"),
        (402, {"code": 402, "message": "Insufficient credits"}, AccessError, "billing"),
        (401, {"code": "invalid_api_key", "message": "Incorrect key"}, AccessError, "OPENROUTER_API_KEY"),
        (
            400,
            [{"error": {"code": 400, "message": "API key not valid. Please pass one."}}],
            AccessError,
            "refused the key",
        ),
        (400, {"code": 400, "message": "x/y is not a valid model ID"}, UsageError, "vendor/model-x"),
        (403, {"code": "model_not_found", "message": "no access"}, UsageError, "vendor/model-x"),
        (
            404,
            {"object": "error", "message": "The model `x` does not exist.", "code": 404},
            UsageError,
            "does not exist",
        ),
        (404, "<html>not here</html>", UsageError, r"\(404\)"),
        (403, {"code": 403, "message": "Forbidden"}, AccessError, "denied access"),
        (403, {"message": "Your input was flagged"}, CallFailed, "rejected the request"),
        (403, {"message": "Not so", "metadata": {"flagged_input": "kill"}}, CallFailed, "rejected the request"),
        (400, {"code": "context_length_exceeded", "message": "Too much."}, PromptTooLong, "too long"),
        (
            400,
            {"object": "error", "message": "maximum context length is 4096 tokens", "code": 400},
            PromptTooLong,
            "too long",
        ),
        (400, {"error": "input length exceeds the context length"}, PromptTooLong, "too long"),
        (413, None, PromptTooLong, "too long"),
        (400, {"message": ["no", "text"]}, CallFailed, r"\(400\)"),
        (
            503,
            [{"error": {"code": 503, "status": "UNAVAILABLE", "message": "Overloaded."}}],
            TransientFailure,
            "Overloaded",
        ),
        (500, "<html>oops</html>", TransientFailure, r"\(500\)"),
    ],
)
def test_error_bodies_of_every_service_map_to_the_right_error(
    status: int, body: Any, kind: type[Exception], says: str
) -> None:
    failure = map_response(parse_error_response(body, status, {}), ASKED)
    assert type(failure) is kind
    with pytest.raises(kind, match=says):
        raise failure


def test_retry_delay_is_read_from_headers_and_body() -> None:
    assert parse_error_response({}, 429, {"retry-after-ms": "1500", "retry-after": "2"}).after == 1.5
    assert parse_error_response({}, 429, {"retry-after": "2"}).after == 2.0
    assert parse_error_response([{"error": {"details": RETRY_INFO}}], 429, {}).after == 34.5
    assert parse_error_response({}, 429, {}).after is None
    assert parse_error_response({}, 429, {"retry-after-ms": "soon"}).after is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "message": "slow down"}, TransientFailure),
        ({"code": 502, "message": "upstream"}, TransientFailure),
        ({"code": "server_error", "message": "?"}, TransientFailure),
        ({"code": 400, "message": "maximum context length is 10 tokens"}, PromptTooLong),
        ({"code": 401, "message": "no"}, AccessError),
        ("out of memory", TransientFailure),
    ],
)
def test_error_inside_a_200_is_mapped_by_its_code_and_counts_usage(error: object, kind: type[Exception]) -> None:
    used = Usage(calls=1, input_tokens=7)
    failure = map_stream_error(error, ASKED, used)
    assert type(failure) is kind
    if isinstance(failure, CallFailed):
        assert (failure.usage, failure.free) == (used, False)


def every_exception() -> list[type[Exception]]:
    """Return every public exception class of the SDK."""
    shown = [getattr(openai, name) for name in openai.__all__]
    return [c for c in shown if inspect.isclass(c) and issubclass(c, Exception) and c is not openai.OpenAIError]


def make_error(kind: type[Exception]) -> Exception:
    request = httpx2.Request("POST", "http://127.0.0.1/v1", headers={"authorization": f"Bearer {KEY}"})
    if issubclass(kind, openai.OAuthError):
        return kind(response=httpx2.Response(401, request=request), body=None)
    if issubclass(kind, openai.APIStatusError):
        status = getattr(kind, "status_code", 500)
        return kind("no", response=httpx2.Response(status, request=request), body=None)
    if issubclass(kind, openai.APIResponseValidationError):
        return kind(httpx2.Response(200, request=request), None)
    if issubclass(kind, openai.APITimeoutError):
        return kind(request)
    if issubclass(kind, openai.APIConnectionError):
        return kind(request=request)
    if issubclass(kind, openai.APIError):
        return kind("no", request, body=None)
    # The other classes need arguments from SDK modules that are never used here.
    error = kind.__new__(kind)
    error.args = ("no",)
    return error


@pytest.mark.parametrize("kind", every_exception(), ids=lambda kind: kind.__name__)
def test_every_sdk_exception_is_mapped_without_the_key(kind: type[Exception]) -> None:
    assert len(every_exception()) > 12
    error = map_openai_error(make_error(kind), ASKED)
    assert isinstance(error, CallFailed | EvalscribeError)
    assert KEY not in str(error)


def test_connect_timeout_is_free_and_means_unavailable() -> None:
    error = make_error(openai.APITimeoutError)
    error.__cause__ = httpx2.ConnectTimeout("late")
    failure = map_openai_error(error, ASKED)
    assert isinstance(failure, TransientFailure)
    assert failure.free
    assert isinstance(failure.ends_all, UnavailableError)
