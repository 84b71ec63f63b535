"""Two sides that did the same evals: what changed, how sure that is, and what the changes have in common."""
