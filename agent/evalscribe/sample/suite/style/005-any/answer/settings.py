"""Settings with dotted names."""

import json
from collections.abc import Mapping
from typing import Any


def load(text: str) -> dict[str, object]:
    """Settings from a JSON object."""
    settings = json.loads(text)
    if not isinstance(settings, dict):
        raise ValueError("settings must be a JSON object")
    return settings


def setting(settings: Mapping[str, object], name: str, default: object = None) -> Any:
    """The value of a dotted name."""
    value: object = settings
    for key in name.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return default
        value = value[key]
    return value
