"""evalscribe tells you why a model failed an eval run, and whose fault it was."""

__version__ = "0.1.0"
