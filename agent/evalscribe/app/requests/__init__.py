"""What the SDK asks models over a collection, and the results that are kept."""
