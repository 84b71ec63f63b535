"""What a report prints beside what its own content would print: which generated lines are not evalscribe's. Pure."""

from evalscribe.proofread.generated import generated
from evalscribe.proofread.parts import lines_of, parts

__all__ = ["generated", "lines_of", "parts"]
