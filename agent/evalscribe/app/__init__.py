"""Use cases: one a file, called by every surface."""
