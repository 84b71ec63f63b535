"""Two sides that did the same evals: what changed, how sure that is, and what the changes have in common."""

from evalscribe.compare.behaviours import behaviours
from evalscribe.compare.divergence import first_divergence
from evalscribe.compare.matrix import matrix
from evalscribe.compare.sides import compared
from evalscribe.compare.tries import Played
from evalscribe.compare.within import within

__all__ = ["Played", "behaviours", "compared", "first_divergence", "matrix", "within"]
