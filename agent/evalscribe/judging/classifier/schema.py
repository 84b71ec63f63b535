"""The strict JSON Schema of a pydantic model: flat, closed, every field required, without ranges.

Providers compile such a schema into a grammar; ranges and lengths are no part of it, so they are told in words and
checked when the answer is here.
"""

from typing import Any

from pydantic import BaseModel

KEPT = ("type", "enum", "description")
TOLD = {
    "minimum": "at least",
    "maximum": "at most",
    "maxLength": "characters at most",
    "minItems": "items at least",
    "maxItems": "items at most",
}


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
