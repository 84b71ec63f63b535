"""Gather: the evidence of a run's failures into the store, and the part of it that a judge reads first."""

from evalscribe.gather.collect import gather, gathered
from evalscribe.gather.digest import before_output
from evalscribe.gather.pack import BUDGET, pack

__all__ = ["BUDGET", "before_output", "gather", "gathered", "pack"]
