"""Evaluate: what tries at the items of a dataset say, and how far that can be trusted."""
