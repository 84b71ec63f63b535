"""Members and their ids."""

from collections.abc import Iterable

from ids import UserId


def unique(ids: Iterable[UserId]) -> list[UserId]:
    """Each id once, sorted."""
    return sorted(set(ids))


def remove(members: dict[UserId, str], ids: Iterable[UserId]) -> int:
    """Delete members; how many there were."""
    gone = [user for user in unique(ids) if user in members]
    for user in gone:
        del members[user]
    return len(gone)
