"""JSON to read."""

import json


def dump(value: object) -> str:
    """Sorted, indented, one newline at the end."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
