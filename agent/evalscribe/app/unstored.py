"""What a person writes into the store by hand must hold no secret: nobody would find it there again."""

from pydantic import JsonValue

from evalscribe.errors import UsageError
from evalscribe.redaction.redact import redact_json


def require_no_secret(said: JsonValue, where: str, instead: str = "take it out") -> None:
    """`where`: what holds it, without quoting it. Raises `UsageError`."""
    if redact_json(said) != said:
        raise UsageError(f"{where} holds what looks like a secret, and would be stored: {instead}")
