"""Somebody else's message, fit to be printed in ours."""

from evalscribe.redaction import redact

LENGTH = 300


def shown(message: str, *secrets: str) -> str:
    """One line of bounded length, without control characters and secrets."""
    for secret in filter(None, secrets):
        message = message.replace(secret, "[redacted:key]")
    line = " ".join(redact(message[: LENGTH * 20]).split())
    line = "".join(c if c.isprintable() else "\ufffd" for c in line)
    return line if len(line) <= LENGTH else line[: LENGTH - 1] + "…"
