"""Whole runs in collections: brought in, looked at, queried, forgotten."""
