"""Experiments and their runs, one use case per file."""
