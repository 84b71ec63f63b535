"""Scorers: judges of one run item. Those that need no model are here, those that ask one are in `model`."""

from evalscribe.judging.scorers.bindings import binding_of
from evalscribe.judging.scorers.catalogue import Listed, names, reserved
from evalscribe.judging.scorers.specs import runner, spec

__all__ = ["Listed", "binding_of", "names", "reserved", "runner", "spec"]
