"""Greetings."""


def hello(name: str = "") -> str:
    """Greet by name, or whoever is there."""
    return f"Hello, {name.strip() or 'there'}!"
