"""Areas."""

from math import pi


def positive(length: float) -> float:
    """The length, if it is one."""
    if length < 0:
        raise ValueError(f"negative length {length}")
    return length


def circle(radius: float) -> float:
    """Area of a circle."""
    return pi * positive(radius) ** 2


def square(side: float) -> float:
    """Area of a square."""
    return positive(side) ** 2
