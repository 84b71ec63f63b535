"""Traffic lights."""

from enum import Enum


class Light(Enum):
    """In the order in which they shine."""

    RED = "red"
    GREEN = "green"
    AMBER = "amber"


def after(light: Light) -> Light:
    """The light that follows."""
    lights = list(Light)
    return lights[(lights.index(light) + 1) % len(lights)]
