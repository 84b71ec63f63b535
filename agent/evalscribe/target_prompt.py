"""Prompts as targets of experiments: a template, a model and its parameters, in versions that never change."""

from typing import Any, Literal

from pydantic import Field

from evalscribe.chat import Effort
from evalscribe.ids import Frozen


class TargetMessage(Frozen):
    """One message of the template; `{{input}}`, `{{input.order_id}}` are filled in."""

    role: Literal["system", "user", "assistant"]
    content: str


class TargetPromptVersion(Frozen):
    id: str
    """`pv-…`, named by content."""
    prompt_id: str
    number: int
    """From 1."""
    model: str
    """`provider/name`."""
    messages: tuple[TargetMessage, ...]
    max_tokens: int = 4096
    effort: Effort | None = None
    output_schema: dict[str, Any] | None = None
    """JSON Schema that the answer is held to; None for free text."""
    created_at: str


class TargetPrompt(Frozen):
    id: str
    """`prompt-…`"""
    name: str
    """Unique; usable wherever its id is."""
    created_at: str
    versions: tuple[TargetPromptVersion, ...] = Field(default=())
    """In order; the last is the latest."""
