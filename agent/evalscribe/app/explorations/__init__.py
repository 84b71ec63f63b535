"""One question asked of a whole collection."""
