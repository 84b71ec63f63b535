"""Load settings from JSON and look values up by dotted name."""

import json
from typing import Any


def load(text: str) -> dict[str, object]:
    """Parse a JSON object into a settings dictionary."""
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("expected a JSON object at the top level")
    return data


def setting(settings: dict[str, object], name: str, default: Any = None) -> Any:
    """Look up a dotted name, falling back to default."""
    current: object = settings
    for part in name.split("."):
        if isinstance(current, dict) and part in current:
            current = current[part]
        else:
            return default
    return current
