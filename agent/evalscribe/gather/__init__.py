"""Gather: the evidence of a run's failures into the store, and the part of it that a judge reads first."""
