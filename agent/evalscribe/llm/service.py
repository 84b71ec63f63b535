"""Open models by name. Retry transient failures, and pause calls to a provider that reports a rate limit."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from evalscribe.errors import AccessError, UsageError
from evalscribe.ids import Frozen
from evalscribe.llm.budget import Budget, BudgetedModel, Price, RemoteBudget, price_of
from evalscribe.model.chat import CallFailed, Reply, Request, TransientFailure, Usage
from evalscribe.model.protocols import Model, OnText
from evalscribe.settings.access import ANTHROPIC, PROVIDERS, Access, Provider, full_model_name

if TYPE_CHECKING:
    from evalscribe.llm.anthropic import AnthropicModel
    from evalscribe.llm.batch import BatchModel
    from evalscribe.llm.openai import OpenAIModel
    from evalscribe.store.results import BatchStore


# A single refusal delays only the refused call. Several consecutive refusals, without an answer in between, delay all
# calls.
MAX_REFUSALS = 3
log = logging.getLogger(__name__)


class RateLimitPause:
    """A pause that all calls to one provider share, whatever their model and stage.

    The pause begins after `MAX_REFUSALS` rate limits in a row, without an answered call in between.
    """

    def __init__(self) -> None:
        self._refused = 0
        self._until = 0.0
        """End of the pause, as a time of the event loop's clock. It is the latest end that was requested since the last
        answer."""
        self._answered = asyncio.Event()

    def refused(self, wait_s: float) -> None:
        """Record that a rate limit was reached.

        If there is a pause, it lasts at least `wait_s` seconds from now, unless a call is answered earlier.
        """
        self._refused += 1
        self._until = max(self._until, asyncio.get_running_loop().time() + wait_s)

    def answered(self) -> None:
        """Record that a call was answered. This ends the pause for all calls."""
        self._refused, self._until = 0, 0.0
        # Waiting calls are woken. Calls that wait later wait on the new event.
        self._answered.set()
        self._answered = asyncio.Event()

    def remaining_s(self) -> float:
        """Return the number of seconds until the pause ends; 0 if there is no pause."""
        if self._refused < MAX_REFUSALS:
            return 0.0
        return max(0.0, self._until - asyncio.get_running_loop().time())

    async def over(self) -> None:
        """Wait until the pause is over or a call is answered."""
        while (remaining := self.remaining_s()) > 0:
            try:
                async with asyncio.timeout(remaining):
                    await self._answered.wait()
            except TimeoutError:
                # Another refusal can have extended the pause in the meantime.
                continue


class RetryPolicy(Frozen):
    """Limits for the retries of one call. All times are in seconds."""

    attempts: int = 5
    # The waits are as long as those of the Anthropic SDK, 0.5 to 8 seconds.
    first_wait_s: float = 0.5
    longest_wait_s: float = 8.0
    # The Anthropic SDK has no such limit: it waits as long as the header `retry-after` says.
    total_s: float = 120.0
    """Maximum seconds from the first attempt to the last retry. No retry is made later, even if the service asks for a
    longer wait."""

    def wait(self, failures: int) -> float:
        """Return the number of seconds to wait after `failures` failed attempts.

        The service can ask for a longer wait.
        """
        return min(self.longest_wait_s, self.first_wait_s * 2.0 ** (failures - 1))


class RetryingModel:
    """A `Model` that retries another model's calls after transient failures."""

    def __init__(self, model: Model, patience: RetryPolicy | None = None, pause: RateLimitPause | None = None) -> None:
        """Wrap a model. `pause` is shared by all models of one provider; None to share no pause."""
        self.id = model.id
        self.context_tokens = model.context_tokens
        self._model = model
        self._patience = patience or RetryPolicy()
        self._shared = pause or RateLimitPause()

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        await self._shared.over()
        deadline = asyncio.get_running_loop().time() + self._patience.total_s
        lost = Usage()
        for failures in range(1, self._patience.attempts + 1):
            try:
                reply = await self._model.complete(request, on_text)
                self._shared.answered()
                log.info(
                    "call answered: %s, %s input and %s output tokens",
                    reply.stop,
                    reply.usage.input_tokens,
                    reply.usage.output_tokens,
                )
                return reply.model_copy(update={"usage": lost + reply.usage})
            except TransientFailure as error:
                lost += error.usage
                log.info("call failed (attempt %s): %s", failures, error.reason)
                await self._pause(error, failures, deadline, lost)
            except CallFailed as error:
                error.usage, error.free = lost + error.usage, error.free and not lost.calls
                raise  # `BudgetExceeded` is raised unchanged, because callers distinguish it from other failures
        raise AssertionError("the last attempt returns or raises")

    def forget(self, request: Request) -> None:
        self._model.forget(request)

    async def _pause(self, error: TransientFailure, failures: int, deadline: float, lost: Usage) -> None:
        """Wait until the next attempt. If no attempts or no time are left, raise the final failure."""
        wait = max(error.after or 0.0, self._patience.wait(failures))
        if error.limited and wait <= self._patience.total_s:
            # A wait longer than `total_s` is not shared with other calls, because it would make all of them fail.
            self._shared.refused(wait)
        late = asyncio.get_running_loop().time() + max(wait, self._shared.remaining_s()) > deadline
        if not late and failures < self._patience.attempts:
            await asyncio.sleep(wait)
            await self._shared.over()
            return
        # The error ends the command only now, after the retries, because a single connection error can be temporary.
        if error.ends_all is not None:
            raise error.ends_all from None
        requested_wait = f", which asks to wait {error.after:.0f} s" if late and error.after else ""
        tried = "once" if failures == 1 else f"{failures} times"
        raise CallFailed(
            f"{error.reason}{requested_wait} (tried {tried})", lost, free=error.free and not lost.calls
        ) from None

    async def close(self) -> None:
        await self._model.close()


FindAccess = Callable[[str], Access | None]
"""Function that returns the host and the key of a provider, like `Settings.provider`."""
TIMEOUT_S = 300.0


class ModelService:
    """A `Models` in which all stages share one connection pool for each model."""

    def __init__(
        self,
        access: FindAccess,
        budget: Budget | RemoteBudget,
        *,
        patience: RetryPolicy | None = None,
        timeout_s: float = TIMEOUT_S,
        context_tokens: int | None = None,
        intents: "BatchStore | None" = None,
        fresh: bool = False,
    ) -> None:
        """Store the arguments. No model is opened yet.

        Args:
            access: A function that returns the host and the key of a provider.
            budget: Limit for all calls.
            patience: Retry limits; None for the defaults.
            timeout_s: Maximum seconds for one attempt.
            context_tokens: Context window, in tokens, of models whose context window is unknown.
            intents: Store for batches; None to make only single calls. With a store, every call is first sent in a
                batch, and the store is closed together with the models.
            fresh: True to ask questions again that a batch has answered before.
        """
        self._access = access
        self._budget = budget
        self._patience = patience
        self._timeout_s = timeout_s
        self._context_tokens = context_tokens
        self._intents = intents
        self._fresh = fresh
        self._adapters: dict[str, AnthropicModel | OpenAIModel] = {}
        self._waves: dict[str, BatchModel] = {}
        self._pauses: dict[str, RateLimitPause] = {}

    def open(self, name: str, stage: str) -> Model:
        """Open a model for a stage.

        Raises `UsageError` if the name is invalid, a package is missing, or the budget cannot limit the model. Raises
        `AccessError` if the key is missing.
        """
        name = full_model_name(name)
        provider, model = parse_model_name(name)
        if self._intents and provider != ANTHROPIC:
            problem = f"`batch` works only with Anthropic models, not {name}: leave it out, or choose another model"
            raise UsageError(problem, fields=("batch",))
        cost = price_of(name)
        if name not in self._adapters:
            model_access = require_access(provider, name, self._access)
            self._adapters[name] = open_adapter(
                provider, model, model_access, cost, self._timeout_s, self._context_tokens
            )
        # The budget is inside the retries, so that each attempt is charged, and a call that waits for its next attempt
        # reserves nothing.
        budgeted = BudgetedModel(self._adapters[name], self._budget, cost, stage)
        single = RetryingModel(budgeted, self._patience, self._pauses.setdefault(provider.name, RateLimitPause()))
        return single if self._intents is None else self._in_batches(name, single, self._intents, stage)

    def spent(self) -> Mapping[str, Usage]:
        return self._budget.by_stage

    async def close(self) -> None:
        # Batches are closed first, because their tasks still use the clients of the adapters.
        for model in (*self._waves.values(), *self._adapters.values()):
            await model.close()
        if self._intents:
            self._intents.close()

    def _in_batches(self, name: str, single: Model, intents: "BatchStore", stage: str) -> Model:
        from evalscribe.llm.anthropic import AnthropicModel
        from evalscribe.llm.batch import BatchModel, with_batches

        adapter, cost = self._adapters[name], price_of(name)
        assert isinstance(adapter, AnthropicModel), "`open` refuses batches of other providers"
        if name not in self._waves:
            self._waves[name] = BatchModel(adapter, intents, cost, fresh=self._fresh)
        return with_batches(self._waves[name], single, self._budget, cost, stage)


def parse_model_name(name: str) -> tuple[Provider, str]:
    """Split a name into provider and model.

    The name of the model can contain slashes. Raises `UsageError` if the name is invalid.
    """
    provider, _, model = full_model_name(name).partition("/")
    return PROVIDERS[provider], model


def require_access(provider: Provider, name: str, find: FindAccess) -> Access:
    """Return the host and the key of a provider.

    Raises `AccessError`, which names the missing variable, if no key is set.
    """
    access = find(provider.name)
    if access is None:
        hint = f"; a server of your own needs only {provider.url_name}" if provider.compatible else ""
        raise AccessError(f"{name} needs a key: set {provider.key_name} (environment, .env.local or .env){hint}")
    return access


def open_adapter(
    provider: Provider,
    model: str,
    access: Access,
    cost: Price | None,
    timeout_s: float,
    context_tokens: int | None = None,
) -> "AnthropicModel | OpenAIModel":
    """Return an adapter for this model. Raises `UsageError` if the adapter's package is not installed."""
    key = access.key.get_secret_value() if access.key else ""
    # The adapters are imported only when they are used: importing an SDK takes 0.7 to 1.7 s of CPU time.
    if provider == ANTHROPIC:
        from evalscribe.llm.anthropic import AnthropicModel

        return AnthropicModel(model, key, access.url, cost, timeout_s)
    from evalscribe.llm.openai import OpenAIModel

    return OpenAIModel(model, key, provider, access.url, cost, timeout_s, context_tokens)
