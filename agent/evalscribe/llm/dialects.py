"""How the chat-completions services differ, each in what it takes and what it is asked for besides."""

from typing import Any, Literal

from pydantic import Field

from evalscribe.chat import Effort
from evalscribe.ids import Frozen
from evalscribe.settings.providers import GOOGLE, OPENAI, OPENROUTER, Provider

EFFORTS: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "xhigh", "max")


class Dialect(Frozen):
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the bound of the answer is called."""
    strict: bool = False
    """Whether tools are held to their schemas when asked to be; a server that cannot may refuse the word."""
    most_effort: Effort = "high"
    extra: dict[str, Any] = Field(default_factory=dict)
    """Sent with every call."""
    structured: dict[str, Any] = Field(default_factory=dict)
    """Sent with calls that want structured output."""
    check: str = "/models"
    """What can be asked for that costs nothing and needs the key."""
    context_tokens: int = 128_000
    """What most models have at least; a prompt beyond the real window comes back as `context_exceeded`."""

    def effort(self, wanted: Effort) -> Effort:
        """The nearest that the service knows."""
        return min(wanted, self.most_effort, key=EFFORTS.index)


COMPATIBLE = Dialect(context_tokens=32_768)
"""Any other server: Ollama, vLLM, llama.cpp. Some cut a longer prompt without a word."""
DIALECTS = {
    OPENAI.name: Dialect(limit="max_completion_tokens", strict=True, most_effort="max"),
    OPENROUTER.name: Dialect(
        strict=True,
        most_effort="xhigh",
        extra={"usage": {"include": True}},
        # Without it a call may go to a host that leaves the schema out of account.
        structured={"provider": {"require_parameters": True}},
        check="/key",
    ),
    GOOGLE.name: Dialect(context_tokens=1_000_000),
}


def dialect_of(provider: Provider, url: str) -> Dialect:
    """How to speak to this provider at this address; a gateway or a proxy of a provider's speaks as it does."""
    if provider.compatible and url != provider.url:
        return COMPATIBLE
    return DIALECTS[provider.name]
