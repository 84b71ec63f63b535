"""Scores of an Inspect sample: any of them a letter, a word, a number, or several of these."""

import math
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

_WORDS: dict[str, float] = {"c": 1, "p": 0.5, "i": 0, "n": 0, "yes": 1, "no": 0, "true": 1, "false": 0}
PLACEHOLDER = "88F74D2C"
"""What stands for the name of the only scorer in logs of the first versions."""


def number(value: JsonValue) -> float | None:
    """A scalar as a number; None for what is no score: null, NaN, other words."""
    if isinstance(value, bool | int | float):
        return float(value) if math.isfinite(value) else None
    if not isinstance(value, str):
        return None
    known = _WORDS.get(value.strip().lower())
    return known if known is not None else _parsed(value)


def numbers(scores: Mapping[str, Mapping[str, JsonValue]]) -> dict[str, float]:
    """Every score by its scorer's name; of one that has several values each by `scorer.key`."""
    return dict(_numbers(scores))


def main(score: Mapping[str, JsonValue]) -> float | None:
    """The number by which a sample passed or failed; of several values the least."""
    value = score.get("value")
    if isinstance(value, dict | list):
        parts = [
            part for one in (value.values() if isinstance(value, dict) else value) if (part := number(one)) is not None
        ]
        return min(parts) if parts else None
    return number(value)


def _numbers(scores: Mapping[str, Mapping[str, JsonValue]]) -> Iterator[tuple[str, float]]:
    for scorer, score in scores.items():
        value = score.get("value")
        if isinstance(value, dict):
            parts = {f"{scorer}.{key}": part for key, part in value.items()}
        elif isinstance(value, list):
            parts = {f"{scorer}.{n}": part for n, part in enumerate(value)}
        else:
            parts = {scorer: value}
        for name, part in parts.items():
            if (found := number(part)) is not None:
                yield name, found


def _parsed(text: str) -> float | None:
    try:
        parsed = float(text)
    except ValueError:
        return None
    return parsed if math.isfinite(parsed) else None
