"""What runs when."""

from timetable import every


def noop() -> None:
    """Nothing."""


def greet(name: str) -> None:
    """Print a greeting."""
    print(f"Hello, {name}")


def plan() -> None:
    """Put both jobs into the timetable."""
    every("each second", run=noop, seconds=1, args={})
    every("greeting", run=greet, minutes=5, args={"name": "Ada"})
