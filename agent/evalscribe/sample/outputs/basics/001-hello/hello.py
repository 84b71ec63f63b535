def hello(name: str = "") -> str:
    """Return a friendly greeting."""
    cleaned = name.strip()
    if not cleaned:
        return "Hello, there!"
    return f"Hello, {cleaned}!"
