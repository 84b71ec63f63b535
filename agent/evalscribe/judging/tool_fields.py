"""What a model may call: a tool and its fields, from one pydantic model.

The JSON Schema is strict: flat, closed, every field required, without ranges.

Providers compile such a schema into a grammar; ranges and lengths are no part of it, so they are told in words and
checked when the answer is here.
"""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from evalscribe.model.chat import Tool

LONGEST_RESULT = 24_000
"""Characters of one tool result."""
KEPT = ("type", "enum", "description")
TOLD = {
    "minimum": "at least",
    "maximum": "at most",
    "maxLength": "characters at most",
    "minItems": "items at least",
    "maxItems": "items at most",
}


class Fields(BaseModel):
    """What one tool is called with.

    The docstring of a subclass tells the model what the tool does. Docstring, field names and descriptions are part of
    the prompt and so of the keys of stored verdicts: whoever edits them has every model asked again.
    """

    model_config = ConfigDict(extra="forbid")


def tool_of(name: str, fields: type[BaseModel]) -> Tool:
    return Tool(name=name, description=(fields.__doc__ or name).strip(), input_schema=strict_schema(fields))


def misuse(error: ValidationError) -> str:
    """What is wrong with a call, for the model."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:10])


def bounded(lines: Iterable[str]) -> str:
    """Lines up to the longest result, and a word where there are more."""
    kept: list[str] = []
    room = LONGEST_RESULT
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*kept, "[cut here; ask for less at once]"])
        kept.append(line)
    return "\n".join(kept)


def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    whole = model.model_json_schema()
    strict = _strict(whole, whole.get("$defs", {}))
    # The tool's own description says it already.
    strict.pop("description", None)
    return strict


def _strict(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        named = definitions[schema["$ref"].rpartition("/")[2]]
        schema = {**named, **schema}
    strict = {key: schema[key] for key in KEPT if key in schema}
    told = "; ".join(f"{words} {schema[key]}" for key, words in TOLD.items() if key in schema)
    if told:
        strict["description"] = f"{strict.get('description', '')} ({told})".strip()
    if schema["type"] == "object":
        fields = {name: _strict(field, definitions) for name, field in schema.get("properties", {}).items()}
        strict |= {"properties": fields, "required": list(fields), "additionalProperties": False}
    if schema["type"] == "array":
        strict["items"] = _strict(schema["items"], definitions)
    return strict
