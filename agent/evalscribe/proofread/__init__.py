"""What a report prints beside what its own content would print: which generated lines are not evalscribe's. Pure."""

from evalscribe.proofread.generated import generated
from evalscribe.proofread.parts import Part, lines_of, parts
from evalscribe.proofread.said import Said

__all__ = ["Part", "Said", "generated", "lines_of", "parts"]
