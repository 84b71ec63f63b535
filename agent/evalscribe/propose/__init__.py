"""A recommendation into a patch for the eval suite: what it may touch, and what a model proposes."""
