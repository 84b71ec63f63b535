"""How many characters have to be put in, taken out or exchanged to make one text of another."""

from itertools import takewhile
from operator import eq

LONGEST = 100_000
LARGEST = 400_000_000
"""Of the product of both lengths, equal beginnings and ends aside: with `LONGEST`, a fifth of a second."""


class TooLong(ValueError):
    """The texts are too long to be compared in this way."""


def edit_distance(one: str, other: str) -> int:
    """Levenshtein's, by characters. Raises `TooLong` where it would take more than a moment."""
    one, other = _differing(one, other)
    if not one or not other:
        return len(one) + len(other)
    short, long = sorted((one, other), key=len)
    if len(long) > LONGEST or len(short) * len(long) > LARGEST:
        raise TooLong(f"texts of {len(one):,} and {len(other):,} differing characters are too long to compare")
    return _columns(short, long)


def _differing(one: str, other: str) -> tuple[str, str]:
    """Both without what they begin and end with alike."""
    start = _alike(one, other)
    one, other = one[start:], other[start:]
    end = _alike(one[::-1], other[::-1])
    return (one[:-end], other[:-end]) if end else (one, other)


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def _columns(short: str, long: str) -> int:
    """Myers' algorithm: the differences down a whole column of the table are the bits of two numbers."""
    full = (1 << len(short)) - 1
    last = 1 << (len(short) - 1)
    where = dict.fromkeys(short, 0)
    for at, character in enumerate(short):
        where[character] |= 1 << at
    up, down, distance = full, 0, len(short)
    for character in long:
        equal = where.get(character, 0)
        diagonal = (((equal & up) + up) ^ up) | equal | down
        right, left = down | (full & ~(diagonal | up)), up & diagonal
        distance += bool(right & last) - bool(left & last)
        right, left = ((right << 1) | 1) & full, (left << 1) & full
        up, down = left | (full & ~(diagonal | right)), right & diagonal
    return distance
