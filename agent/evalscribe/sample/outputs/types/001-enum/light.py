from enum import Enum, auto


class Light(Enum):
    RED = auto()
    GREEN = auto()
    AMBER = auto()


def after(light: Light) -> Light:
    """Return the next light in the cycle."""
    match light:
        case Light.RED:
            return Light.GREEN
        case Light.GREEN:
            return Light.AMBER
        case Light.AMBER:
            return Light.RED
