"""From a configuration as somebody wrote it to a scorer's own, and what is said of one that is wrong."""

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import JsonValue, ValidationError

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.json_data import preview

F = TypeVar("F", bound=Frozen)


def configured(shape: type[F], name: str, config: Mapping[str, JsonValue]) -> F:
    """Raises `UsageError` naming the key and its rule."""
    try:
        return shape.model_validate_json(json.dumps(config, allow_nan=False))
    except ValidationError as error:
        raise UsageError(f"scorer {name}: {_told(error, shape, name)}") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"scorer {name}: its config is no JSON: {error}") from error


def _told(error: ValidationError, shape: type[Frozen], name: str) -> str:
    """The first problem in our words."""
    details = error.errors()[0]
    path = ".".join(str(part) for part in details["loc"])
    keys = [field.alias or key for key, field in shape.model_fields.items()]
    match details["type"]:
        case "missing":
            return f"{path} is missing; {_example(shape, name)}"
        case "extra_forbidden":
            return f"{path} is unknown; its config has: {', '.join(keys) or 'nothing'}"
        case "value_error":
            return f"{path} {details['ctx']['error']}".lstrip()
        case _:
            return f"{path} {_rule(details['msg'])}, not {preview(details['input'])}".lstrip()


def _rule(message: str) -> str:
    return re.sub(r"^\w+ should", "must", message)


def _example(shape: type[Frozen], name: str) -> str:
    """How to write what is required, so that it can be copied."""
    properties: dict[str, Any] = shape.model_json_schema(by_alias=True)
    said = {key: f"… {properties['properties'][key].get('description', '')}".rstrip() for key in properties["required"]}
    return f"write {json.dumps({'name': name, 'config': said}, ensure_ascii=False)}"
