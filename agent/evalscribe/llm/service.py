"""Every model that can be asked, by name; all of them spend from one budget."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from evalscribe.chat import Usage
from evalscribe.errors import AccessError, UsageError
from evalscribe.llm.budget import Budgeted, Purse
from evalscribe.llm.pause import Pause
from evalscribe.llm.prices import Price, price
from evalscribe.llm.retry import Patience, Persistent
from evalscribe.ports import Intents, Model
from evalscribe.settings import Access
from evalscribe.settings.providers import ANTHROPIC, PROVIDERS, Provider

if TYPE_CHECKING:
    from evalscribe.llm.batch import Batched

Find = Callable[[str], Access | None]
"""The host and key of a provider, as `Settings.provider` finds them."""
TIMEOUT_S = 300.0


class Adapter(Model, Protocol):
    """One attempt at one answer; what repeats it and what it may spend are for those that wrap it."""

    async def check(self) -> None:
        """Ask for something that costs nothing. Raises `EvalscribeError` where the host or the key is no good."""


class Service:
    """A `ports.Models`. Each model keeps one connection pool, whatever stages ask it."""

    def __init__(
        self,
        access: Find,
        budget: Purse,
        *,
        patience: Patience | None = None,
        timeout_s: float = TIMEOUT_S,
        context_tokens: int | None = None,
        intents: Intents | None = None,
        fresh: bool = False,
    ) -> None:
        """`context_tokens`: of models whose window cannot be known here.

        `intents`: where batches are written down, closed with the models; with them every call joins a batch.
        `fresh`: what a batch answered before is asked anew.
        """
        self._access = access
        self._budget = budget
        self._patience = patience
        self._timeout_s = timeout_s
        self._context_tokens = context_tokens
        self._intents = intents
        self._fresh = fresh
        self._adapters: dict[str, Adapter] = {}
        self._waves: dict[str, Batched] = {}
        self._pauses: dict[str, Pause] = {}

    def open(self, name: str, stage: str) -> Model:
        """Raises `UsageError` for no model, no package or a model that the budget cannot hold, `AccessError`
        for a missing key."""
        provider, model = parsed(name)
        if self._intents and provider != ANTHROPIC:
            raise UsageError(f"--batch is for models of anthropic, not for {name}: leave it out")
        cost = price(name)
        if name not in self._adapters:
            found = access_of(provider, name, self._access)
            self._adapters[name] = adapter(provider, model, found, cost, self._timeout_s, self._context_tokens)
        budgeted = Budgeted(self._adapters[name], self._budget, cost, stage)
        single = Persistent(budgeted, self._patience, self._pauses.setdefault(provider.name, Pause()))
        return single if self._intents is None else self._in_batches(name, single, self._intents, stage)

    def spent(self) -> Mapping[str, Usage]:
        return self._budget.by_stage

    async def close(self) -> None:
        for model in (*self._waves.values(), *self._adapters.values()):
            await model.close()
        if self._intents:
            self._intents.close()

    def _in_batches(self, name: str, single: Model, intents: Intents, stage: str) -> Model:
        from evalscribe.llm.anthropic import AnthropicModel
        from evalscribe.llm.batch import Batched, batched

        adapter, cost = self._adapters[name], price(name)
        assert isinstance(adapter, AnthropicModel), "no other provider comes here"
        if name not in self._waves:
            self._waves[name] = Batched(adapter, intents, cost, fresh=self._fresh)
        return batched(self._waves[name], single, self._budget, cost, stage)


def parsed(name: str) -> tuple[Provider, str]:
    """The provider and its own name of the model, which may have slashes. Raises `UsageError`."""
    provider, _, model = name.partition("/")
    if provider not in PROVIDERS or not model:
        raise UsageError(f"{name} names no model: give PROVIDER/MODEL, of {', '.join(PROVIDERS)}")
    return PROVIDERS[provider], model


def access_of(provider: Provider, name: str, find: Find) -> Access:
    """Raises `AccessError` naming the variable that is missing."""
    found = find(provider.name)
    if found is None:
        own = f"; a server of your own needs only {provider.url_name}" if provider.compatible else ""
        raise AccessError(f"{name} needs a key: set {provider.key_name} (environment, .env.local or .env){own}")
    return found


def adapter(
    provider: Provider,
    model: str,
    found: Access,
    cost: Price | None,
    timeout_s: float,
    context_tokens: int | None = None,
) -> Adapter:
    """One attempt at one answer of this model. Raises `UsageError` where the package for it is missing."""
    key = found.key.get_secret_value() if found.key else ""
    if provider == ANTHROPIC:
        from evalscribe.llm.anthropic import AnthropicModel

        return AnthropicModel(model, key, found.url, cost, timeout_s)
    from evalscribe.llm.openai import OpenAIModel

    return OpenAIModel(model, key, provider, found.url, cost, timeout_s, context_tokens)
