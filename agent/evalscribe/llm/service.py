"""Every model that can be asked, by name; all of them spend from one budget."""

from collections.abc import Callable, Mapping
from typing import Protocol

from evalscribe.chat import Usage
from evalscribe.errors import AccessError, UsageError
from evalscribe.llm.budget import Budget, Budgeted
from evalscribe.llm.pause import Pause
from evalscribe.llm.prices import Price, price
from evalscribe.llm.retry import Patience, Persistent
from evalscribe.ports import Model
from evalscribe.settings import Access
from evalscribe.settings.providers import ANTHROPIC, PROVIDERS, Provider

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
        self, access: Find, budget: Budget, *, patience: Patience | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._access = access
        self._budget = budget
        self._patience = patience
        self._timeout_s = timeout_s
        self._adapters: dict[str, Adapter] = {}
        self._pauses: dict[str, Pause] = {}

    def open(self, name: str, stage: str) -> Model:
        """Raises `UsageError` for no model, no package or a model that the budget cannot hold, `AccessError`
        for a missing key."""
        provider, model = parsed(name)
        cost = price(name)
        if name not in self._adapters:
            found = access_of(provider, name, self._access)
            self._adapters[name] = adapter(provider, model, found, cost, self._timeout_s)
        budgeted = Budgeted(self._adapters[name], self._budget, cost, stage)
        return Persistent(budgeted, self._patience, self._pauses.setdefault(provider.name, Pause()))

    def spent(self) -> Mapping[str, Usage]:
        return self._budget.by_stage

    async def close(self) -> None:
        for model in self._adapters.values():
            await model.close()


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


def adapter(provider: Provider, model: str, found: Access, cost: Price | None, timeout_s: float) -> Adapter:
    """One attempt at one answer of this model. Raises `UsageError` where the package for it is missing."""
    key = found.key.get_secret_value() if found.key else ""
    if provider == ANTHROPIC:
        from evalscribe.llm.anthropic import AnthropicModel

        return AnthropicModel(model, key, found.url, cost, timeout_s)
    from evalscribe.llm.openai import OpenAIModel

    return OpenAIModel(model, key, provider, found.url, cost, timeout_s)
