"""Prompts as targets of experiments: a template, a model and its parameters, in versions that never change."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue

from evalscribe.chat import Effort
from evalscribe.ids import Frozen
from evalscribe.json_value import as_text, member

_VARIABLE = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_INPUT = re.compile(r"input(?:\.[\w-]+)*")


class Unfilled(ValueError):
    """A variable that a template has and an input has not, or that there is not; one line."""


def variables(template: str) -> tuple[str, ...]:
    """Those that it has, as `input.a.b`. Raises `Unfilled` for anything else in double braces."""
    found = tuple(match[1] for match in _VARIABLE.finditer(template))
    unknown = [name for name in found if not _INPUT.fullmatch(name)]
    if unknown:
        raise Unfilled(f"{{{{{unknown[0][:60]}}}}} is no variable: there is {{{{input}}}} and {{{{input.NAME}}}}")
    return found


def _known(template: str) -> str:
    variables(template)
    return template


class TargetMessage(Frozen):
    """One message of the template; `{{input}}`, `{{input.order_id}}` are filled in."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[str, AfterValidator(_known)]


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


def filled(template: str, value: JsonValue) -> str:
    """The template with `{{input}}` and `{{input.a.b}}` as text, everything else as JSON; what is put in is data.

    Raises `Unfilled`.
    """
    return _VARIABLE.sub(lambda found: as_text(_member(value, found[1])), template)


def _member(value: JsonValue, name: str) -> JsonValue:
    """`input.items.0.id` of `{"items": [{"id": 7}]}` is 7."""
    for part in name.split(".")[1:]:
        try:
            value = member(value, part)
        except LookupError:
            raise Unfilled(f"the item's input has no {part!r}, which {{{{{name}}}}} names") from None
    return value
