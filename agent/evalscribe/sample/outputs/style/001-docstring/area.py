import math


def circle(radius: float) -> float:
    """Return the area of a circle."""
    if radius < 0:
        raise ValueError("radius must be non-negative")
    return math.pi * radius * radius


def square(side: float) -> float:
    """Return the area of a square."""
    if side < 0:
        raise ValueError("side must be non-negative")
    return side * side
