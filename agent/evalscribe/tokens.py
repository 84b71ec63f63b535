"""How many tokens a text is likely to cost, estimated offline and the same way everywhere."""

BYTES_PER_TOKEN = 3
"""Code and tool output run at three to four bytes a token; the lower figure keeps a budget on the safe side."""


def estimate(text: str) -> int:
    """Tokens of a text, rounded up; 0 for an empty one. Other scripts than Latin count by their UTF-8 bytes."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // BYTES_PER_TOKEN)
