"""Environment that lets another process join the tests' Ray cluster."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterAddress:
    head: str
    token: dict[str, str]
    """Environment variables that Ray requires."""
