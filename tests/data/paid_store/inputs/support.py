def answer(question):
    """Names the order that it is asked about."""
    return f"Order {question} was shipped."
