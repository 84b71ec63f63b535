"""A client of the OpenAI SDK that takes nothing from the environment."""

from collections.abc import Awaitable, Callable
from typing import Any

from httpx2 import Request
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from evalscribe.http_limits import limit_answers, model_limits
from evalscribe.settings.connections import as_environment_says

NO_KEY = "none"


def client(key: str, base_url: str) -> AsyncOpenAI:
    """`key` is empty where the server needs none."""
    hooks: dict[str, list[Callable[..., Awaitable[Any]]]] = {
        "request": [] if key else [_without_authorization],
        "response": [limit_answers(model_limits)],
    }
    with as_environment_says():
        # A redirect would carry the evidence to a host that nobody chose.
        connections = DefaultAsyncHttpxClient(follow_redirects=False, event_hooks=hooks)
    made = AsyncOpenAI(
        api_key=key or NO_KEY,
        admin_api_key="",
        webhook_secret="",
        base_url=base_url,
        max_retries=0,
        http_client=connections,
    )
    # OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS, which may hold a secret, would go to any host.
    made.organization = made.project = None
    made._custom_headers = {}
    return made


async def _without_authorization(request: Request) -> None:
    """The SDK insists on a key."""
    request.headers.pop("authorization", None)
