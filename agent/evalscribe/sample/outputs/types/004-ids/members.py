"""Member bookkeeping."""

from collections.abc import Iterable

from ids import UserId


def unique(ids: Iterable[UserId]) -> list[UserId]:
    """Return the distinct ids in sorted order."""
    seen: set[str] = set()
    for user_id in ids:
        seen.add(user_id)
    return sorted(seen)


def remove(members: dict[UserId, str], ids: Iterable[UserId]) -> int:
    """Remove the given members and return how many were removed."""
    removed = 0
    for user_id in unique(ids):
        if members.pop(user_id, None) is not None:
            removed += 1
    return removed
