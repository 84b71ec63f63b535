"""Damage copies of real files: remove, repeat or change bytes, replace values by other types, or cut the end."""

import json
import random
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

_VALUE = re.compile(rb'"(?:[^"\\]|\\.){0,200}"|-?\d+(?:\.\d+)?|\btrue\b|\bfalse\b|\bnull\b')
_OTHERS: tuple[Any, ...] = (
    *(None, True, -1, 10**30, 0.5, float("inf"), "", "x" * 300, "\x00\ud800", "NaN"),
    *([], {}, [[]], [None], [[[[[[]]]]]], {"": {}}, {"a": [1, {"b": 2}]}),
)
MOST_ACCIDENTS = 3
DAMAGED = (
    "agentrx/magentic_one",
    "agentrx/tau_retail",
    "formats/atif",
    "formats/claude_code",
    "formats/codex",
    "formats/deepeval",
    "formats/every_eval_ever/converted",
    "formats/harbor",
    "formats/helm",
    "formats/inspect",
    "formats/lm_eval/real",
    "formats/lm_eval/two_filters",
    "formats/otlp",
    "formats/promptfoo",
    "formats/pydantic_evals",
    "formats/swebench/logs",
    "formats/swebench/trajectory-1.1",
    "formats/swebench/trajs",
    "inspect/log.eval",
    "tau-bench/gpt-4o-airline-tasks-0-24.json",
)
"""Paths of real files and folders of every format, relative to the folder of the real data."""


def mutate_copy(source: Path, into: Path, seed: int) -> tuple[Path, Path]:
    """Copy a file or folder, and damage one of its files in a few places. Return the copy and the damaged file.

    Args:
        source: The real file or folder.
        into: Folder for the copy; must exist.
        seed: Seed of the damage. The same seed always gives the same copy.
    """
    copy = into / source.name
    if source.is_dir():
        shutil.copytree(source, copy)
    else:
        shutil.copyfile(source, copy)
    chance = random.Random(f"{source.name} {seed}")
    files = sorted(path for path in copy.rglob("*") if path.is_file()) if copy.is_dir() else [copy]
    files = [path for path in files if path.stat().st_size and not path.name.startswith(("LICENSE", "README"))]
    damaged = chance.choice(files)
    damaged.chmod(0o644)
    content = damaged.read_bytes()
    if chance.random() < 0.5 and (changed := _with_other_members(content, chance)):
        content = changed
    else:
        for _ in range(chance.randint(1, MOST_ACCIDENTS)):
            content = _accident(content, chance)
    damaged.write_bytes(content)
    return copy, damaged


def _accident(content: bytes, chance: random.Random) -> bytes:
    if not content:
        return content
    start = chance.randrange(len(content))
    end = min(len(content), start + chance.choice((1, 7, 200, 5000)))
    kind = chance.choice(("value", "value", "value", "lost", "repeated", "other", "end"))
    if kind == "value" and (found := _VALUE.search(content, start)):
        return content[: found.start()] + json.dumps(chance.choice(_OTHERS)).encode() + content[found.end() :]
    if kind == "lost":
        return content[:start] + content[end:]
    if kind == "repeated":
        return content[:end] + content[start:]
    if kind == "end":
        return content[:start]
    return content[:start] + chance.randbytes(end - start) + content[end:]


def _with_other_members(content: bytes, chance: random.Random) -> bytes | None:
    """Return JSON, or a file with one JSON value on each line, with a few members replaced; None for other files."""
    with suppress(ValueError):
        return json.dumps(_changed(json.loads(content), chance)).encode()
    with suppress(ValueError):
        lines = content.decode().splitlines()
        at = chance.randrange(len(lines))
        lines[at] = json.dumps(_changed(json.loads(lines[at]), chance))
        return "\n".join(lines).encode()
    return None


def _changed(value: Any, chance: random.Random) -> Any:
    """Return the value with a few of its members replaced, at any depth."""
    places: list[tuple[Any, Any]] = []
    left = [value]
    while left:
        one = left.pop()
        members = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
        for key, member in members:
            places.append((one, key))
            left.append(member)
    for parent, key in chance.sample(places, min(len(places), chance.randint(1, 8))):
        parent[key] = chance.choice(_OTHERS)
    return value
