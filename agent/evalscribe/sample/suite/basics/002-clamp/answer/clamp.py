"""Keep a number in its bounds."""


def clamp(value: float, low: float, high: float) -> float:
    """The number of `low..high` that is nearest to `value`."""
    if low > high:
        raise ValueError(f"low {low} is greater than high {high}")
    return max(low, min(value, high))
