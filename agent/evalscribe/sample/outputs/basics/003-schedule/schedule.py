"""Schedule the recurring jobs."""

from timetable import every


def noop() -> None:
    """A job that intentionally does nothing."""
    return None


def greet(name: str) -> None:
    """Greet someone by name."""
    print(f"Hello, {name}")


def plan() -> None:
    """Register all jobs with the timetable."""
    # noop takes no arguments, so there is nothing to pass along
    every("each second", run=noop, seconds=1)
    every("greeting", run=greet, minutes=5, args={"name": "Ada"})
