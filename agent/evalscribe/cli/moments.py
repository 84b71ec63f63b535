"""Points in time, as people write them."""

from datetime import UTC, datetime


def moment(text: str, option: str) -> str:
    """ISO 8601 in UTC, as the store has it; what names no zone is UTC. Raises `UsageError` naming the option."""
    from evalscribe.errors import UsageError

    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{option} {text!r} is no time: give 2026-11-21 or 2026-11-21T14:05:00Z") from None
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    return zoned.astimezone(UTC).isoformat(timespec="milliseconds")
