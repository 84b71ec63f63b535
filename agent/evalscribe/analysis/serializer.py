"""What keeps LangGraph's state, wherever it is: of that only plain values are read."""

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

Saver = BaseCheckpointSaver[str]
SCHEMA = "evalscribe_checkpoints"
"""Of the tables on a server, which no SQL of a user's may read."""


def serializer() -> JsonPlusSerializer:
    """By default a planted checkpoint could name any function of any module, and reading it would call that (seen)."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)
