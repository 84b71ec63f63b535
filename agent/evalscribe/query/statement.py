"""A query that was read, checked and written in the spelling of one engine."""

from evalscribe.ids import Frozen
from evalscribe.query.kinds import Kind


class Named(Frozen):
    name: str
    kind: Kind


class Statement(Frozen):
    text: str
    """With `:name` where a value belongs."""
    values: dict[str, str | float]
    """All that stood quoted in the query, and its numbers with a fraction. The collection's id is not among them."""
    columns: tuple[Named, ...]
    """As the user named them; what the engine calls them means nothing."""
