"""How much of an answer is kept. Only the standard library: every query's process imports it."""

LONGEST_CELL = 1_000_000
"""Characters."""
MOST_CHARACTERS = 64_000_000
"""Of all cells together."""


def cut(text: str) -> str:
    return f"{text[:LONGEST_CELL]}… (cut: {len(text):,} characters in all)"
