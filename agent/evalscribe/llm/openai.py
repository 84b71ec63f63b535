"""Make one attempt to get an answer from a service that has OpenAI's chat completions API."""

from contextlib import aclosing, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from evalscribe.errors import EvalscribeError, UnavailableError, UsageError
from evalscribe.llm.attempt import (
    CONNECT_S,
    CallTarget,
    PromptTooLong,
    TextForwarder,
    attempt,
    host_of,
    stream_text,
    without_key,
)
from evalscribe.llm.budget import Price
from evalscribe.llm.completion import (
    Dialect,
    StreamedCompletion,
    dialect_of,
    error_inside,
    messages,
    reply_of,
    response_format,
    to_plain,
    tool,
    usage_of,
)
from evalscribe.model.chat import CallFailed, Effort, Reply, Request, Usage
from evalscribe.model.protocols import OnText
from evalscribe.settings.access import OPENAI, Provider

if TYPE_CHECKING:
    from openai import AsyncOpenAI


FALLBACK: dict[Effort, tuple[Effort, ...]] = {"max": ("high",), "xhigh": ("high",), "minimal": ("low",)}
"""For an effort that the model rejected, the efforts to try instead. If the model rejects these efforts too, no effort
is sent."""
NO_EFFORT = ("reasoning", "thinking", "effort", "no endpoints found")
"""Phrases in the error of a model that does not reason or does not support the requested effort."""
NOT_KNOWN = ("unsupported", "not supported", "unrecognized", "unknown", "not permitted", "extra ")
NOT_STREAMED = (*NOT_KNOWN, "must be verified")
OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


class NotStreamed(CallFailed):
    """Raised if the service does not stream the answers of this model."""


class OpenAIModel:
    """A `Model` that makes one attempt per call. The models that wrap it add retries and budgets."""

    def __init__(
        self,
        name: str,
        key: str,
        provider: Provider = OPENAI,
        base_url: str = "",
        price: Price | None = None,
        timeout_s: float = 300.0,
        context_tokens: int | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        """Store the arguments.

        `key` is empty if no key is needed. If `dialect` is None, the dialect is chosen by the address. Raises
        `UsageError` if the package `openai` is not installed.
        """
        _require_package(provider)
        self.id = f"{provider.name}/{name}"
        self._name = name
        self._key = key
        self._provider = provider
        self._base_url = base_url or provider.url
        self.host = host_of(self._base_url, provider.url_name)
        self._dialect = dialect or dialect_of(provider, self._base_url)
        self.context_tokens = context_tokens or self._dialect.context_tokens
        self._price = price
        self._timeout_s = timeout_s
        self._limit: str = self._dialect.limit
        self._refused: set[Effort] = set()
        self._streams = True
        self._counted: dict[str, Any] = {"stream_options": {"include_usage": True}}
        """Parameters that make the service report the usage in a stream. They are removed if the service rejects them.
        """
        self._client: AsyncOpenAI | None = None

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Send the request once.

        Raises `TransientFailure` or `CallFailed` if the problem affects only this call, and `EvalscribeError` if it
        affects all calls.
        """
        # The SDK is imported here, because importing it takes 0.7 s of CPU time, and the limit of the call must not
        # include that.
        self.client()
        try:
            if on_text and self._streams:
                with suppress(NotStreamed):
                    return await self._stream_reply(request, TextForwarder(on_text))
            reply = self._reply(await attempt(self._create(request), self._timeout_s, self.failure))
        except PromptTooLong:
            return Reply(text="", stop="context_exceeded", usage=Usage())
        if on_text and reply.text:
            on_text(reply.text)
        return reply

    async def _stream_reply(self, request: Request, forwarder: TextForwarder) -> Reply:
        completion = StreamedCompletion()
        text_stream = stream_text(
            self._create(request, streamed=True), completion, self.host, self._timeout_s, self.failure
        )
        async with aclosing(text_stream) as texts:
            async for text in texts:
                forwarder.forward(text)
        reply = self._reply(completion)
        forwarder.end(reply.text)
        return reply

    def forget(self, request: Request) -> None:
        """Do nothing, because no answers are cached."""

    async def check(self) -> None:
        """Check the host and the key with a request that costs nothing.

        Raises `EvalscribeError` if the host or the key does not work.
        """
        work = self.client().get(self._dialect.check, cast_to=object)
        try:
            answer = await attempt(work, self._timeout_s, self.failure)
        except CallFailed as failure:
            raise UnavailableError(str(failure)) from None
        if not isinstance(answer, dict):
            raise UnavailableError(f"{self.host} returned HTML instead of JSON")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _create(self, request: Request, *, streamed: bool = False) -> Any:
        """Request a completion.

        If the service rejects a parameter that can be changed or left out, send the adapted request at once. A rejected
        call costs nothing.
        """
        from openai import BadRequestError, NotFoundError, UnprocessableEntityError

        # The loop ends: each adaptation removes a parameter or changes it once.
        while True:
            params = self.params(request, streamed=streamed)
            try:
                return await self._send(params)
            except (BadRequestError, NotFoundError, UnprocessableEntityError) as error:
                if not self._adapt(params, str(error)):
                    raise

    async def _send(self, params: dict[str, Any]) -> Any:
        from openai import Timeout

        timeout = Timeout(self._timeout_s, connect=CONNECT_S)
        return await self.client().chat.completions.create(**params, timeout=timeout)

    def params(self, request: Request, *, streamed: bool = False) -> dict[str, Any]:
        """Return the body of the request."""
        params: dict[str, Any] = {
            "model": self._name,
            "messages": messages(request),
            self._limit: request.max_tokens,
        }
        if streamed:
            params |= {"stream": True, **self._counted}
        extra = dict(self._dialect.extra)
        if request.tools:
            params["tools"] = [tool(offered, strict=self._dialect.strict) for offered in request.tools]
        if effort := self._effort(request.effort):
            params["reasoning_effort"] = effort
        if request.answer_schema is not None:
            params["response_format"] = response_format(request.answer_schema)
            extra |= self._dialect.structured
        return {**params, "extra_body": extra} if extra else params

    def _effort(self, requested: Effort | None) -> Effort | None:
        """Return the effort to send; None if no effort is sent.

        The effort is the requested one. If this model has rejected it, the next best effort is used.
        """
        if requested is None:
            return None
        supported = self._dialect.effort(requested)
        return next(
            (effort for effort in (supported, *FALLBACK.get(supported, ())) if effort not in self._refused), None
        )

    def _adapt(self, params: dict[str, Any], message: str) -> bool:
        """Change the parameters of all further calls so that an error of the service does not occur again.

        Returns True if a parameter could be adapted. Raises `NotStreamed` if the service accepts only calls without
        streaming.
        """
        words = message.lower()
        # Checked before `stream`, because this error contains that word as well.
        if "stream_options" in params and any(sign in words for sign in ("stream_options", "include_usage")):
            self._counted = {}
            return True
        if "stream" in params and "stream" in words and any(sign in words for sign in NOT_STREAMED):
            self._streams = False
            raise NotStreamed("no stream", free=True)
        # The name is changed only once. A service that rejects both names would be asked forever.
        if self._limit == self._dialect.limit and self._limit in words and any(sign in words for sign in NOT_KNOWN):
            self._limit = OTHER_LIMIT[self._limit]
            return True
        if "reasoning_effort" in params and any(sign in words for sign in NO_EFFORT):
            self._refused.add(params["reasoning_effort"])
            return True
        return False

    def client(self) -> "AsyncOpenAI":
        """Return the client of this model, created on the first call.

        All settings are passed explicitly, so that the SDK reads no settings from the environment.
        """
        if self._client is None:
            from evalscribe.llm.openai_sdk import open_client

            self._client = open_client(self._key, self._base_url)
        return self._client

    def failure(self, error: Exception) -> CallFailed | EvalscribeError:
        """Return the exception to raise in place of an SDK exception. The new exception does not contain the key."""
        from evalscribe.llm.openai_sdk import map_openai_error

        # `NotStreamed` is raised inside the attempt, and is not an exception of the SDK.
        if isinstance(error, CallFailed):
            return error
        return without_key(map_openai_error(error, self._target()), self._key)

    def _reply(self, answer: object) -> Reply:
        """Convert an answer to a `Reply`. Raises `CallFailed` if the answer is HTML, incomplete or malformed."""
        from evalscribe.llm.openai_sdk import map_stream_error

        try:
            body = answer.body() if isinstance(answer, StreamedCompletion) else to_plain(answer)
            if (error := error_inside(body)) is None:
                return reply_of(body, self._price)
            usage = usage_of(body, self._price)
        except (AttributeError, TypeError, ValueError, KeyError, IndexError):
            raise CallFailed(f"{self.host} sent something that is not a completion") from None
        # OpenRouter reports some errors with status 200, in the body of the answer.
        raise without_key(map_stream_error(error, self._target(), usage), self._key)

    def _target(self) -> "CallTarget":

        return CallTarget(provider=self._provider, model=self._name, host=self.host)


def _require_package(provider: Provider) -> None:
    # The package is looked for without importing it, which takes 0.7 s of CPU time.
    if find_spec("openai") is None:
        raise UsageError(f"models of {provider.title} need the package openai: pip install 'evalscribe[openai]'")
