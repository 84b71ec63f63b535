"""Somebody else's message, fit to be printed in ours."""

from evalscribe.prose import cut, printable
from evalscribe.redaction import redact

LENGTH = 300


def shown(message: str, *secrets: str) -> str:
    """One line of bounded length, without control characters and secrets."""
    for secret in filter(None, secrets):
        message = message.replace(secret, "[redacted:key]")
    return cut(printable(" ".join(redact(message[: LENGTH * 20]).split())), LENGTH)
