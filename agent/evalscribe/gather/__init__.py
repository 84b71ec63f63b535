"""Gather: the evidence of a run's failures into the store, and the part of it that a judge reads first."""

from evalscribe.gather.collect import gather, gathered
from evalscribe.gather.pack import case_of, pack, prepare
from evalscribe.gather.sighting import METHOD, sighting

__all__ = ["METHOD", "case_of", "gather", "gathered", "pack", "prepare", "sighting"]
