"""Whose models can be asked: how each provider is called in the environment, and where it is."""

from evalscribe.ids import Frozen


class Provider(Frozen):
    name: str
    """As in `provider/name`."""
    title: str
    """As people write it."""
    url: str
    """The vendor's own address, without a slash at its end."""
    compatible: bool = False
    """Whether its address may be changed to a server that speaks the same protocol and needs no key."""

    @property
    def key_name(self) -> str:
        return f"{self.name.upper()}_API_KEY"

    @property
    def url_name(self) -> str:
        return f"{self.name.upper()}_BASE_URL"


ANTHROPIC = Provider(name="anthropic", title="Anthropic", url="https://api.anthropic.com")
OPENAI = Provider(name="openai", title="OpenAI", url="https://api.openai.com/v1", compatible=True)
OPENROUTER = Provider(name="openrouter", title="OpenRouter", url="https://openrouter.ai/api/v1")
GOOGLE = Provider(name="google", title="Google", url="https://generativelanguage.googleapis.com/v1beta/openai")
PROVIDERS = {provider.name: provider for provider in (ANTHROPIC, OPENAI, OPENROUTER, GOOGLE)}
NAMES = tuple(name for provider in PROVIDERS.values() for name in (provider.key_name, provider.url_name))
"""Of the environment."""
