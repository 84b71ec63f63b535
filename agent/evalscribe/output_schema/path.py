"""Where in a schema or an answer something stands, and what stands there, in words for a message."""

import json

LONGEST_VALUE = 80
LONGEST_PATH = 200


def joined(path: str, part: object) -> str:
    """The path of a part: `path.name`, `path[3]`, `path["odd name"]`; without a path just the part's."""
    if isinstance(part, int):
        return f"{path}[{part}]"
    name = str(part)
    if not name.replace("-", "_").replace("$", "_").isidentifier():
        return f"{path}[{shown(name)}]"
    return f"{path}.{name}" if path else name


def shown(value: object) -> str:
    """A value in one line of bounded length."""
    try:
        return _cut(json.dumps(value, ensure_ascii=False), LONGEST_VALUE)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"


def short(path: str) -> str:
    """A path of bounded length, its end left out."""
    return _cut(path, LONGEST_PATH)


def listed(names: object) -> str:
    """`a, b, c`."""
    return ", ".join(map(str, names)) if isinstance(names, list | tuple | dict) else str(names)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
