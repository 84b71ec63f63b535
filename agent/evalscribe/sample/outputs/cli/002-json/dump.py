import json


def dump(value: object) -> str:
    """Serialise value as readable JSON."""
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False)
    return f"{text}\n"
