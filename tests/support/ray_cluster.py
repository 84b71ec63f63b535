"""How another process joins the cluster of the tests."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterAddress:
    head: str
    token: dict[str, str]
    """What Ray wants in the environment."""
